/** Where each record of a slice's bytes begins and ends, computed at the first request. */
import { isAscii, isUtf8 } from "node:buffer";
import { invariant } from "../../core/base/invariant.ts";
import type { RecordRange } from "./record-range.ts";
import { LINE_FEED, type RecordScanner } from "./record-scanner.ts";

export class RecordIndex {
  readonly bytes: Buffer;
  /** All bytes are ASCII: bytes and characters have the same positions. */
  readonly ascii: boolean;
  /** False: at least one record is not UTF-8, and each has to be checked. */
  readonly utf8: boolean;
  readonly #range: RecordRange;
  /** Start and end of each record, alternating. */
  readonly #bounds: Uint32Array;

  constructor(range: RecordRange, bytes: Buffer, scanner: RecordScanner) {
    this.bytes = bytes;
    this.ascii = isAscii(bytes);
    this.utf8 = this.ascii || isUtf8(bytes);
    this.#range = range;
    this.#bounds = findBounds(range.items, bytes, scanner);
  }

  startOf(position: number): number {
    return this.#bounds[2 * position] ?? 0;
  }

  endOf(position: number): number {
    return this.#bounds[2 * position + 1] ?? 0;
  }

  bytesOf(position: number): Buffer {
    return this.bytes.subarray(this.startOf(position), this.endOf(position));
  }

  /** A separate copy: a substring of the slice's text would keep the whole slice in memory. */
  textOf(position: number): string {
    const encoding = this.ascii ? "latin1" : "utf8";
    return this.bytes.toString(encoding, this.startOf(position), this.endOf(position));
  }

  /** The line of the file where a record begins. Counted only for an error. */
  lineOf(position: number): number {
    return this.#range.line + countLineFeeds(this.bytes.subarray(0, this.startOf(position)));
  }

  /** True for the file's last record without a line end: the file may be cut off. */
  isUnterminated(position: number): boolean {
    return this.bytes[this.endOf(position) - 1] !== LINE_FEED;
  }
}

function countLineFeeds(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(LINE_FEED); at !== -1; at = bytes.indexOf(LINE_FEED, at + 1)) lines++;
  return lines;
}

function findBounds(items: number, bytes: Buffer, scanner: RecordScanner): Uint32Array {
  const bounds = new Uint32Array(2 * items);
  let found = 0;
  scanner.take(bytes);
  for (let start = 0; start < bytes.length; ) {
    const next = scanner.findEnd(start);
    const end = next === -1 ? bytes.length : next;
    if (!scanner.blank) {
      bounds[2 * found] = start;
      bounds[2 * found + 1] = end;
      found++;
    }
    start = end;
  }
  // The bytes are those that were sliced (their checksum says so), so only a bug can fail here.
  invariant(found === items, `a slice of ${items} items holds ${found} records`);
  return bounds;
}
