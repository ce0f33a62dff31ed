/** Files called .pdf that are none: a login page of a portal, a picture, an archive. */
import { crc32, deflateSync } from "node:zlib";

export function writeOtherFile(seed: number): Buffer {
  const writers = [() => writeWebPage(seed), writePicture, () => writeArchive(seed)] as const;
  return (writers[seed % writers.length] ?? writePicture)();
}

function writeWebPage(seed: number): Buffer {
  return Buffer.from(
    "<!DOCTYPE html>\n<html><head><title>Session expired</title></head>\n" +
      `<body><h1>Please sign in again</h1><p>Reference ${seed}.</p></body></html>\n`,
  );
}

const PICTURE_SIDE_PIXELS = 16;

/** A grey PNG. */
function writePicture(): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(PICTURE_SIDE_PIXELS, 0);
  head.writeUInt32BE(PICTURE_SIDE_PIXELS, 4);
  // 8 bits of grey; the methods of compressing, filtering and interlacing are the only ones, 0.
  head[8] = 8;
  // A row begins with its filter, 0.
  const rows = Buffer.alloc((PICTURE_SIDE_PIXELS + 1) * PICTURE_SIDE_PIXELS);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    writePngChunk("IHDR", head),
    writePngChunk("IDAT", deflateSync(rows)),
    writePngChunk("IEND", Buffer.alloc(0)),
  ]);
}

function writePngChunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, checksum]);
}

/** The first of January 1980, the earliest date of a zip file. */
const DOS_DATE = 0x0021;
const ZIP_VERSION = 20;

/** A zip file with one uncompressed member. */
function writeArchive(seed: number): Buffer {
  const member = Buffer.from("approval.txt");
  const data = Buffer.from(`The approval ${seed} is in another file.\n`);
  // The fields that the member's header and the list of members share, from the version on.
  const facts = Buffer.alloc(26);
  facts.writeUInt16LE(ZIP_VERSION, 0);
  facts.writeUInt16LE(DOS_DATE, 8);
  facts.writeUInt32LE(crc32(data), 10);
  facts.writeUInt32LE(data.length, 14);
  facts.writeUInt32LE(data.length, 18);
  facts.writeUInt16LE(member.length, 22);
  const local = Buffer.concat([Buffer.from("PK\u0003\u0004"), facts, member, data]);
  const made = Buffer.alloc(2);
  made.writeUInt16LE(ZIP_VERSION);
  // Comment, disk, attributes and offset are all 0.
  const listed = Buffer.concat([
    Buffer.from("PK\u0001\u0002"),
    made,
    facts,
    Buffer.alloc(14),
    member,
  ]);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(1, 4);
  end.writeUInt16LE(1, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(local.length, 12);
  return Buffer.concat([local, listed, Buffer.from("PK\u0005\u0006"), end]);
}
