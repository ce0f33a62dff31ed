/**
 * Finds decompression bombs before a parser unpacks them: every stream of a PDF that is compressed
 * with zlib is unpacked here, counted and thrown away. Streams may be compressed several times
 * over. Streams that use another compression, are encrypted, or are broken in their first layer are
 * left to the pool's memory limit.
 */
import { pipeline, Readable } from "node:stream";
import { constants, createInflate, inflateSync } from "node:zlib";
import { collectGarbage } from "./collect-garbage.ts";

/** The maximum number of compression layers of a stream: no real document needs more. */
const LAYERS_MAX = 4;
/** A document with more streams than this is left to the parser and its limits. */
const STREAMS_MAX = 100_000;
/**
 * Most streams unpack to less than this and are unpacked in one call: creating a pipe for each took
 * 0.15 ms.
 */
const SMALL_BYTES = 65_536;
const PIECE_BYTES = 65_536;

/** True if one of its streams unpacks to more than `bytesMax`. */
export async function hasBomb(pdf: Buffer, bytesMax: number): Promise<boolean> {
  let streams = 0;
  for (const packed of listPacked(pdf)) {
    if (++streams > STREAMS_MAX) return false;
    if (isSmall(packed, bytesMax)) continue;
    if (await unpacksBeyond(packed, bytesMax)) return true;
  }
  return false;
}

/**
 * Yields the compressed data after each word `stream`. It begins on the next line, whatever else is
 * on this one, as in PDFium. Each piece extends to the end of the file, because zlib data marks its
 * own end: `endstream` may be missing, or occur in the compressed data. The word `stream` may occur
 * in any text, so the search continues right after it.
 */
function* listPacked(pdf: Buffer): Generator<Buffer> {
  let start = 0;
  for (let at = pdf.indexOf("stream"); at !== -1; at = pdf.indexOf("stream", at + 6)) {
    // Several words on one line point to the same data.
    if (start > at) continue;
    start = findNextLine(pdf, at + 6);
    if (isZlib(pdf.subarray(start, start + 2))) yield pdf.subarray(start);
  }
}

function findNextLine(pdf: Buffer, from: number): number {
  let at = from;
  while (at < pdf.length && pdf[at] !== 0x0a && pdf[at] !== 0x0d) at++;
  return pdf[at] === 0x0d && pdf[at + 1] === 0x0a ? at + 2 : at + 1;
}

function isZlib(head: Uint8Array): boolean {
  const [first = 0, second = 0] = head;
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}

/** Whether it unpacks completely to a small result that is not compressed again. */
function isSmall(packed: Buffer, bytesMax: number): boolean {
  try {
    const maxOutputLength = Math.min(SMALL_BYTES, bytesMax);
    return !isZlib(inflateSync(packed, { maxOutputLength }));
  } catch {
    // Too long or broken: the slow way counts as much of it as can be unpacked.
    return false;
  }
}

/** Garbage is collected after this much unpacked data. */
const COLLECT_EVERY_BYTES = 8 * 1_048_576;
let thrownAwayBytes = 0;

function throwAway(piece: Buffer): void {
  thrownAwayBytes += piece.length;
  if (thrownAwayBytes < COLLECT_EVERY_BYTES) return;
  thrownAwayBytes = 0;
  collectGarbage();
}

/**
 * Unpacks one layer, then two, and so on, always from the start, so that no result is kept in
 * memory.
 */
async function unpacksBeyond(packed: Buffer, bytesMax: number): Promise<boolean> {
  for (let layers = 1; layers <= LAYERS_MAX; layers++) {
    let head = Buffer.alloc(0);
    let count = 0;
    try {
      for await (const piece of unpack(packed, layers)) {
        if (head.length < 2) head = Buffer.concat([head, piece.subarray(0, 2)]);
        count += piece.length;
        throwAway(piece);
        if (count > bytesMax) return true;
      }
    } catch (error) {
      // Truncated, or not a zlib stream after all: the parser decides.
      if (!isZlibError(error)) throw error;
    }
    if (!isZlib(head)) return false;
  }
  return false;
}

async function* unpack(packed: Buffer, layers: number): AsyncGenerator<Buffer> {
  const source = Readable.from([packed]);
  const inflates = Array.from({ length: layers }, () => createInflate({ chunkSize: PIECE_BYTES }));
  // The loop that reads throws the errors. The last inflater ends where its own data ends.
  pipeline([source, ...inflates], () => {});
  try {
    yield* inflates.at(-1) as AsyncIterable<Buffer>;
  } finally {
    for (const stream of [source, ...inflates]) stream.destroy();
  }
}

function isZlibError(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code !== undefined && code in constants;
}
