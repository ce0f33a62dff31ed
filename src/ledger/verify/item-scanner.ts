/**
 * Reads item records as bytes, a million in a fraction of a second: it follows the only form that a
 * record can have, and makes no object and no text of it. It accepts exactly what item-line.ts
 * accepts for the current batch and lane; a test compares both.
 */
import { isUtf8 } from "node:buffer";
import { canonicalize } from "../../core/base/canonical-json.ts";
import { HASH_DIGITS } from "../format/merkle-tree.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
const NINE = 0x39;
const BRACE = 0x7d;
const SPACE = 0x20;
const ASCII_END = 0x80;
const INSTANT = Buffer.from("dddd-dd-ddTdd:dd:dd.dddZ");
const DIGIT = 0x64;

export class ItemScanner {
  /** The attempt of the last record. */
  attempt = 0;
  item = 0;
  step = 0;
  drive = 1;
  worker = 0;
  /** Where the digest of its details begins, or -1. */
  detailsAt = -1;

  readonly #at = Buffer.from('{"at":"');
  readonly #attempt = Buffer.from('","attempt":');
  readonly #batch: Buffer;
  readonly #content = Buffer.from(',"content":"');
  readonly #details = Buffer.from(',"details":"');
  readonly #drive = Buffer.from(',"drive":');
  readonly #item = Buffer.from(',"item":');
  readonly #key = Buffer.from(',"key":');
  readonly #lane: Buffer;
  readonly #step = Buffer.from(',"step":');
  readonly #version = Buffer.from(',"v":1');
  readonly #worker = Buffer.from(',"worker":');

  #bytes: Uint8Array = new Uint8Array(0);
  #next = 0;
  #number = 0;
  #textStart = 0;

  constructor(batch: string, lane: string) {
    this.#batch = Buffer.from(`,"batch":${canonicalize(batch)}`);
    this.#lane = Buffer.from(`,"lane":${canonicalize(lane)},"state":`);
  }

  /**
   * Whether the bytes are a record of this batch and lane. The caller keeps a byte after `end`,
   * such as a line's newline: reading one byte too far must find something that never matches.
   */
  scan(bytes: Uint8Array, start: number, end: number): boolean {
    this.#bytes = bytes;
    this.#next = start;
    if (!this.#takes(this.#at) || !this.#takesInstant()) return false;
    if (!this.#takes(this.#attempt) || !this.#takesNumber()) return false;
    this.attempt = this.#number;
    if (!this.#takes(this.#batch)) return false;
    if (this.#takes(this.#content) && !this.#takesHash()) return false;
    this.detailsAt = -1;
    if (this.#takes(this.#details)) {
      this.detailsAt = this.#next;
      if (!this.#takesHash()) return false;
    }
    return this.#scanNumbers(end) && this.#next === end;
  }

  #scanNumbers(end: number): boolean {
    this.drive = 1;
    if (this.#takes(this.#drive)) {
      if (!this.#takesNumber() || this.#number < 2) return false;
      this.drive = this.#number;
    }
    if (!this.#takes(this.#item) || !this.#takesNumber()) return false;
    this.item = this.#number;
    if (this.#takes(this.#key) && !this.#takesText(end)) return false;
    if (!this.#takes(this.#lane) || !this.#takesState(end)) return false;
    if (!this.#takes(this.#step) || !this.#takesNumber()) return false;
    this.step = this.#number;
    if (!this.#takes(this.#version)) return false;
    if (!this.#takes(this.#worker) || !this.#takesNumber()) return false;
    this.worker = this.#number;
    return this.#bytes[this.#next++] === BRACE;
  }

  #takes(expected: Uint8Array): boolean {
    const bytes = this.#bytes;
    const next = this.#next;
    const { length } = expected;
    for (let i = 0; i < length; i++) {
      if (bytes[next + i] !== expected[i]) return false;
    }
    this.#next = next + length;
    return true;
  }

  #takesInstant(): boolean {
    const bytes = this.#bytes;
    const next = this.#next;
    for (let i = 0; i < INSTANT.length; i++) {
      const byte = bytes[next + i] as number;
      const expected = INSTANT[i] as number;
      if (expected === DIGIT ? !(byte >= ZERO && byte <= NINE) : byte !== expected) return false;
    }
    this.#next = next + INSTANT.length;
    return true;
  }

  /** A whole number without leading zeros, small enough to be exact. */
  #takesNumber(): boolean {
    const bytes = this.#bytes;
    const start = this.#next;
    let next = start;
    let value = 0;
    for (;;) {
      const byte = bytes[next] as number;
      if (!(byte >= ZERO && byte <= NINE)) break;
      value = value * 10 + (byte - ZERO);
      if (value > Number.MAX_SAFE_INTEGER) return false;
      next++;
    }
    this.#next = next;
    this.#number = value;
    return next - start === 1 || (next > start && bytes[start] !== ZERO);
  }

  /** Lower-case hex digits and the quote after them. */
  #takesHash(): boolean {
    const bytes = this.#bytes;
    const next = this.#next;
    for (let i = 0; i < HASH_DIGITS; i++) {
      const byte = bytes[next + i] as number;
      if (!((byte >= ZERO && byte <= NINE) || (byte >= 0x61 && byte <= 0x66))) return false;
    }
    this.#next = next + HASH_DIGITS + 1;
    return bytes[next + HASH_DIGITS] === QUOTE;
  }

  #takesState(end: number): boolean {
    return this.#takesText(end) && this.#next - 1 > this.#textStart;
  }

  /** A quoted text in its canonical form. */
  #takesText(end: number): boolean {
    const bytes = this.#bytes;
    let next = this.#next;
    if (bytes[next++] !== QUOTE) return false;
    this.#textStart = next;
    let isAscii = true;
    for (; next < end; next++) {
      const byte = bytes[next] as number;
      if (byte === QUOTE) {
        this.#next = next + 1;
        return isAscii || isUtf8(bytes.subarray(this.#textStart, next));
      }
      if (byte < SPACE) return false;
      if (byte >= ASCII_END) isAscii = false;
      if (byte === BACKSLASH) {
        const length = measureEscape(bytes, next + 1);
        if (length === 0) return false;
        next += length;
      }
    }
    return false;
  }
}

/** `"`, `\`, and control characters with a letter escape. */
const SHORT_ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\bfnrt'));
/**
 * The last digit of control characters with a letter escape: \b, \t,
 * , \f, \r.
 */
const HAVE_LETTERS: ReadonlySet<number> = new Set(Buffer.from("89acd"));
const HEX_DIGITS: ReadonlySet<number> = new Set(Buffer.from("0123456789abcdef"));
const LONG_ESCAPE = Buffer.from("u00");
const LONG_ESCAPE_LENGTH = 5;
const ONE = 0x31;

/** How many bytes after a backslash belong to it; 0 when the escape is not canonical. */
function measureEscape(bytes: Uint8Array, at: number): number {
  if (SHORT_ESCAPES.has(bytes[at] as number)) return 1;
  for (let i = 0; i < LONG_ESCAPE.length; i++) {
    if (bytes[at + i] !== LONG_ESCAPE[i]) return 0;
  }
  const high = bytes[at + 3] as number;
  const low = bytes[at + 4] as number;
  if (!HEX_DIGITS.has(low)) return 0;
  const isControl = high === ONE || (high === ZERO && !HAVE_LETTERS.has(low));
  return isControl ? LONG_ESCAPE_LENGTH : 0;
}
