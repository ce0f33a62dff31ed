/**
 * Finds decompression bombs before a parser unpacks them: every stream of a PDF that is compressed
 * with zlib is unpacked here, counted and thrown away. Streams may be compressed several times over.
 * What is packed in another way, or hidden from this look, is left to the pool's memory limit.
 */
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createInflate } from "node:zlib";

/** How often a stream may be compressed over: more is no document's need. */
const LAYERS_MAX = 4;
/** A document with more streams than this is read by the parser, and by its limits. */
const STREAMS_MAX = 100_000;

/** True when one of its streams unpacks to more than so many bytes. */
export async function hasBomb(pdf: Buffer, bytesMax: number): Promise<boolean> {
  let from = 0;
  for (let nth = 0; nth < STREAMS_MAX; nth++) {
    const stream = findStream(pdf, from);
    if (stream === null) return false;
    from = stream.end;
    if (await unpacksBeyond(stream.bytes, bytesMax, LAYERS_MAX)) return true;
  }
  return false;
}

/** The next stream's bytes: from its keyword to `endstream`, or to the end of the file. */
function findStream(
  pdf: Buffer,
  from: number,
): { readonly bytes: Buffer; readonly end: number } | null {
  for (let at = pdf.indexOf("stream", from); at !== -1; at = pdf.indexOf("stream", at + 6)) {
    if (pdf.toString("latin1", at - 3, at) === "end") continue;
    const start = skipLineEnd(pdf, at + 6);
    const found = pdf.indexOf("endstream", start);
    const end = found === -1 ? pdf.length : found;
    return { bytes: pdf.subarray(start, end), end: Math.max(end, at + 6) };
  }
  return null;
}

function skipLineEnd(pdf: Buffer, at: number): number {
  const afterReturn = pdf[at] === 0x0d ? at + 1 : at;
  return pdf[afterReturn] === 0x0a ? afterReturn + 1 : afterReturn;
}

const isZlib = (bytes: Uint8Array): boolean =>
  bytes.length > 2 &&
  ((bytes[0] ?? 0) & 0x0f) === 8 &&
  (((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0)) % 31 === 0;

class BombFound extends Error {}

/** Unpacks as many layers as there are, each within the limit. */
async function unpacksBeyond(bytes: Buffer, bytesMax: number, layers: number): Promise<boolean> {
  if (layers === 0 || !isZlib(bytes)) return false;
  let count = 0;
  let inner: Buffer[] | null = null;
  const counter = new Writable({
    write(piece: Buffer, _encoding, done) {
      // Kept only while it could be packed once more.
      if (count === 0 && isZlib(piece)) inner = [];
      inner?.push(piece);
      count += piece.length;
      done(count > bytesMax ? new BombFound() : null);
    },
  });
  try {
    await pipeline(Readable.from([bytes]), createInflate(), counter);
  } catch (error) {
    if (error instanceof BombFound) return true;
    // Rubbish at its end, or no zlib stream after all: the parser's to judge.
  }
  return inner === null ? false : unpacksBeyond(Buffer.concat(inner), bytesMax, layers - 1);
}
