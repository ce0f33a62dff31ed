/**
 * The position of a slice's records in a file, and its text in a chunk's row. The checksum shows a
 * reader whether the bytes are still those that were sliced.
 */
import { SluiceError } from "../../core/base/errors.ts";

export interface FilePosition {
  readonly byte: number;
  /** Counted from 1. */
  readonly line: number;
}

export interface RecordRange {
  /** Half-open, in bytes of the file. */
  readonly from: number;
  readonly to: number;
  /** The line at `from`. */
  readonly line: number;
  readonly items: number;
  /** CRC-32 of the bytes; of an overlong record, of its first `HEAD_BYTES` only. */
  readonly crc: number;
  /** One record too long to be loaded: the slice is that record, and its item an error. */
  readonly overlong: boolean;
  /** The line of a quote that is still open at the end of an overlong record, or 0. */
  readonly openQuoteLine: number;
}

/** How much is read of an overlong record: enough to show its beginning and to notice a change. */
const HEAD_BYTES = 256;

/** The bytes that a reader of the range loads. */
export function loadedBytes(range: RecordRange): number {
  const bytes = range.to - range.from;
  return range.overlong ? Math.min(bytes, HEAD_BYTES) : bytes;
}

/** A range as compact text, with further numbers if a format needs them. */
export function spellRange(range: RecordRange, more: readonly number[] = []): string {
  const { from, to, line, items, crc, overlong, openQuoteLine } = range;
  const tail = more.length === 0 ? "" : `,${more.join(",")}`;
  return `[${from},${to},${line},${items},${crc},${overlong ? 1 : 0},${openQuoteLine}${tail}]`;
}

const RANGE_NUMBERS = 7;

/** The range of a locator, and the `more` numbers after it. */
export function parseRange(
  kind: string,
  locator: string,
  more: number,
): { readonly range: RecordRange; readonly more: readonly number[] } {
  const numbers = parseNumbers(locator);
  if (numbers?.length === RANGE_NUMBERS + more) {
    const [from = 0, to = 0, line = 0, items = 0, crc = 0, overlong = 0, openQuoteLine = 0] =
      numbers;
    if (from < to && line >= 1 && items >= 1) {
      const range = { from, to, line, items, crc, overlong: overlong === 1, openQuoteLine };
      return { range, more: numbers.slice(RANGE_NUMBERS) };
    }
  }
  throw refuseText("locator", kind, locator);
}

export function spellCursor(position: FilePosition): string {
  return `[${position.byte},${position.line}]`;
}

export function parseCursor(kind: string, cursor: string): FilePosition {
  const numbers = parseNumbers(cursor);
  if (numbers?.length === 2) {
    const [byte = 0, line = 0] = numbers;
    if (line >= 1) return { byte, line };
  }
  throw refuseText("cursor", kind, cursor);
}

/** The whole numbers of a JSON array, none negative; null for anything else. */
export function parseNumbers(text: string): readonly number[] | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!Array.isArray(value)) return null;
  const isCount = (entry: unknown): entry is number =>
    Number.isSafeInteger(entry) && (entry as number) >= 0;
  return value.every(isCount) ? value : null;
}

/** The error for a locator or cursor that this kind of source did not write. */
export function refuseText(what: string, kind: string, text: string): SluiceError {
  const shown = JSON.stringify(text.slice(0, 100));
  return new SluiceError("PIPELINE_CHANGED", `${shown} is not a ${what} of a ${kind} source`, {
    hint: "Did the pipeline's source change under a running batch? Give the changed pipeline a new version.",
  });
}
