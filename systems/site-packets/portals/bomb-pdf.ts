/**
 * The bomb: a PDF of a few kilobytes whose only page has more than a gibibyte of content, all of it
 * white space. The content went through the compressor twice, as a single pass cannot shrink it to
 * less than a thousandth.
 *
 * The inner stream consists of a thousand copies of one compressed piece. Really compressing a
 * gibibyte would take seconds, and inflating gives the same result.
 */
import { constants, deflateRawSync, deflateSync } from "node:zlib";
import { PdfWriter } from "./pdf-writer.ts";

const PIECE_BYTES = 2 ** 20;
const PIECES = 1_025;
export const BOMB_INFLATED_BYTES = PIECE_BYTES * PIECES;

/** First bytes of a zlib stream: deflate with a window of 32 KiB, and the compression level. */
const ZLIB_HEAD = Buffer.from([0x78, 0x9c]);
/** An empty block with the flag for the last block. */
const LAST_BLOCK = Buffer.from([0x03, 0x00]);
const ADLER_MODULUS = 65_521;

export function writeBombPdf(): Buffer {
  const file = new PdfWriter();
  const content = file.addStream(deflateSync(compressZeros()), "/Filter[/FlateDecode/FlateDecode]");
  file.addPage(content, "");
  return file.finish();
}

/** A zlib stream of BOMB_INFLATED_BYTES zeros, which count as spaces in the content of a page. */
function compressZeros(): Buffer {
  const piece = deflateRawSync(Buffer.alloc(PIECE_BYTES), {
    // Ends at a whole byte and refers to nothing before: pieces can be concatenated.
    finishFlush: constants.Z_FULL_FLUSH,
  });
  // Adler's first sum stays 1 over zeros, so the second is their number.
  const checksum = Buffer.alloc(4);
  checksum.writeUInt16BE(BOMB_INFLATED_BYTES % ADLER_MODULUS, 0);
  checksum.writeUInt16BE(1, 2);
  const pieces = Array.from({ length: PIECES }, () => piece);
  return Buffer.concat([ZLIB_HEAD, ...pieces, LAST_BLOCK, checksum]);
}
