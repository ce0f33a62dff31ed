/**
 * Reads the byte ranges of slices and proves that they are unchanged. Adjacent ranges of the file
 * are read together: a hundred thousand slices of one item each cost a few reads.
 */
import type { FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { SluiceError } from "../../core/base/errors.ts";
import { BUFFER_BYTES, ReadBuffers } from "./read-buffers.ts";
import { loadedBytes, type RecordRange } from "./record-range.ts";
import { readFully } from "./source-file.ts";

/**
 * Gaps between two slices (blank lines) up to this size are read too, instead of starting a second
 * read.
 */
const GAP_BYTES_MAX = 64 << 10;

/** Converts the bytes of a range; calls `release` when it no longer needs them. */
export type MakePiece<Piece> = (range: RecordRange, bytes: Buffer, release: () => void) => Piece;

/** The result of `make` for the bytes of each range, in the order of the ranges. */
export async function readRanges<Piece>(
  path: string,
  handle: FileHandle,
  ranges: readonly RecordRange[],
  make: MakePiece<Piece>,
  buffers: ReadBuffers = new ReadBuffers(),
  /** The most that one read loads, unless a single slice is larger. */
  readBytesMax: number = BUFFER_BYTES,
): Promise<Piece[]> {
  const pieces: Piece[] = [];
  while (pieces.length < ranges.length) {
    const run = takeRun(ranges, pieces.length, readBytesMax);
    const { buffer: bytes, release } = buffers.take(run.to - run.from, run.ranges.length);
    const filled = await readFully(path, handle, bytes, run.from);
    for (const range of run.ranges) {
      const from = range.from - run.from;
      const piece = bytes.subarray(from, from + loadedBytes(range));
      if (from + piece.length > filled || crc32(piece) !== range.crc) {
        throw describeChange(path, range, run.from + filled);
      }
      pieces.push(make(range, piece, release));
    }
  }
  return pieces;
}

interface Run {
  readonly from: number;
  readonly to: number;
  readonly ranges: readonly RecordRange[];
}

/** As many ranges from `first` on as lie close together and fit into one read. */
function takeRun(ranges: readonly RecordRange[], first: number, readBytesMax: number): Run {
  const taken: RecordRange[] = [];
  let from = 0;
  let to = 0;
  for (let index = first; index < ranges.length; index++) {
    const range = ranges[index];
    if (range === undefined) break;
    if (taken.length === 0) {
      from = range.from;
    } else {
      const gap = range.from - to;
      const bytes = range.from + loadedBytes(range) - from;
      if (gap < 0 || gap > GAP_BYTES_MAX || bytes > readBytesMax) break;
    }
    to = range.from + loadedBytes(range);
    taken.push(range);
  }
  return { from, to, ranges: taken };
}

function describeChange(path: string, range: RecordRange, endOfFile: number): SluiceError {
  const place = `bytes ${range.from} to ${range.to} (from line ${range.line} on)`;
  const shorter = endOfFile < range.from + loadedBytes(range);
  return new SluiceError(
    "SOURCE_CHANGED",
    shorter
      ? `${path} is shorter than when it was sliced: ${place} are missing`
      : `${path} has changed since it was sliced: ${place} are different`,
    {
      hint: "Submit the batch again; its source must not change while it runs.",
    },
  );
}
