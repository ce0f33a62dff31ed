/** The items of a slice of JSON lines. Each is parsed when it is requested, and fails alone. */
import { isUtf8 } from "node:buffer";
import { invariant } from "../../core/base/invariant.ts";
import type { SliceItems } from "../../ports/source.ts";
import { describeBadRecord } from "../files/bad-record.ts";
import { findForbiddenKey, looksForbidden, mayHoldForbiddenKey } from "./forbidden-key.ts";
import { findJsonFault } from "./json-fault.ts";
import { LineScanner } from "./line-scanner.ts";
import { RecordIndex } from "../files/record-index.ts";
import type { RecordRange } from "../files/record-range.ts";

interface Prepared {
  readonly index: RecordIndex;
  readonly suspicious: boolean;
}

/**
 * Lines are decoded together, because cutting a text is faster than decoding each line, but only so
 * many at a time: a text that survives collections makes V8 grow its young generation.
 */
const DECODED_BYTES_MAX = 8_192;

export class JsonlItems implements SliceItems {
  readonly count: number;
  readonly #path: string;
  readonly #range: RecordRange;
  readonly #onRelease: () => void;
  #bytes: Buffer | null;
  #prepared: Prepared | null = null;
  /** Some lines as ASCII text, and where they begin and end. */
  #text = "";
  #textFrom = 0;
  #textTo = 0;

  constructor(path: string, range: RecordRange, bytes: Buffer, onRelease: () => void) {
    this.count = range.items;
    this.#path = path;
    this.#range = range;
    this.#bytes = bytes;
    this.#onRelease = onRelease;
  }

  release(): void {
    if (this.#bytes === null) return;
    this.#bytes = null;
    this.#prepared = null;
    this.#text = "";
    this.#textTo = 0;
    this.#onRelease();
  }

  at(position: number): unknown {
    invariant(position >= 0 && position < this.count, "an item is asked for within its slice");
    const { index, suspicious } = (this.#prepared ??= this.#prepare());
    if (!index.utf8) this.#refuseInvalidUtf8(index, position);
    const line = index.ascii ? this.#cutLine(index, position) : index.textOf(position);
    let item: unknown;
    try {
      item = JSON.parse(line);
    } catch (cause) {
      throw this.#describeMalformed(index, position, line, cause);
    }
    if (suspicious && looksForbidden(line)) this.#refuseForbiddenKey(index, position, line, item);
    return item;
  }

  #prepare(): Prepared {
    const bytes = this.#bytes;
    invariant(bytes !== null, "items are not asked for after their release");
    return {
      index: new RecordIndex(this.#range, bytes, new LineScanner()),
      suspicious: mayHoldForbiddenKey(bytes),
    };
  }

  #cutLine(index: RecordIndex, position: number): string {
    const start = index.startOf(position);
    const end = index.endOf(position);
    if (start < this.#textFrom || end > this.#textTo) {
      this.#textFrom = start;
      this.#textTo = Math.max(end, Math.min(start + DECODED_BYTES_MAX, index.bytes.length));
      this.#text = index.bytes.toString("latin1", start, this.#textTo);
    }
    return this.#text.slice(start - this.#textFrom, end - this.#textFrom);
  }

  #refuseInvalidUtf8(index: RecordIndex, position: number): void {
    if (isUtf8(index.bytesOf(position))) return;
    const text = index.textOf(position);
    throw describeBadRecord({
      code: "INVALID_UTF8",
      path: this.#path,
      line: index.lineOf(position),
      problem: "the line is not UTF-8",
      text,
      offset: Math.max(0, text.indexOf("\ufffd")),
      remedy: "Save the file as UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8.",
    });
  }

  #refuseForbiddenKey(index: RecordIndex, position: number, line: string, item: unknown): void {
    const key = findForbiddenKey(item);
    if (key === null) return;
    throw describeBadRecord({
      code: "FORBIDDEN_KEY",
      path: this.#path,
      line: index.lineOf(position),
      problem: `the key ${key} could change the program that reads it`,
      text: line,
      offset: Math.max(0, line.indexOf(key)),
      remedy: "Rename or remove the key.",
    });
  }

  #describeMalformed(index: RecordIndex, position: number, raw: string, cause: unknown): Error {
    const text = raw.replace(/\r?\n$/, "");
    const place = { path: this.#path, line: index.lineOf(position), text, cause };
    const nul = text.indexOf("\0");
    if (nul !== -1) {
      return describeBadRecord({
        ...place,
        code: "NUL_BYTE",
        column: nul + 1,
        problem: "the line contains a NUL byte",
        offset: nul,
        remedy: "Was the file damaged, or written by several programs at once? Write it again.",
      });
    }
    const fault = findJsonFault(text);
    const offset = fault?.offset ?? 0;
    const cutShort = offset >= text.length;
    return describeBadRecord({
      ...place,
      code: "MALFORMED_LINE",
      column: offset + 1,
      problem: `not JSON, ${fault?.problem ?? "as the parser says"}`,
      offset,
      remedy: remedyFor(cutShort, index.isUnterminated(position)),
    });
  }
}

function remedyFor(cutShort: boolean, unterminated: boolean): string {
  if (cutShort && unterminated) {
    return "This is the file's last line: the file may be cut off. Write or copy it again.";
  }
  if (cutShort) {
    return "Each line must be one whole JSON value. Is the file one JSON document over many lines?";
  }
  return "Correct the line.";
}
