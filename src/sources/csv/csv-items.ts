/** The items of a slice of CSV records: objects of text. Each is parsed when it is requested. */
import { isUtf8 } from "node:buffer";
import type { PermanentError } from "../../core/base/errors.ts";
import { invariant } from "../../core/base/invariant.ts";
import type { SliceItems } from "../../ports/source.ts";
import { describeBadRecord } from "../files/bad-record.ts";
import { type CsvFault, splitFields, stripLineEnd } from "./csv-fields.ts";
import { CsvScanner } from "./csv-scanner.ts";
import { RecordIndex } from "../files/record-index.ts";
import type { RecordRange } from "../files/record-range.ts";

export class CsvItems implements SliceItems {
  readonly count: number;
  readonly #path: string;
  readonly #range: RecordRange;
  readonly #onRelease: () => void;
  #bytes: Buffer | null;
  readonly #names: readonly string[];
  readonly #delimiter: string;
  #index: RecordIndex | null = null;
  #holdsNul = false;

  constructor(
    path: string,
    range: RecordRange,
    bytes: Buffer,
    names: readonly string[],
    delimiter: string,
    onRelease: () => void,
  ) {
    this.count = range.items;
    this.#path = path;
    this.#range = range;
    this.#bytes = bytes;
    this.#names = names;
    this.#delimiter = delimiter;
    this.#onRelease = onRelease;
  }

  release(): void {
    if (this.#bytes === null) return;
    this.#bytes = null;
    this.#index = null;
    this.#onRelease();
  }

  at(position: number): Record<string, string> {
    invariant(position >= 0 && position < this.count, "an item is asked for within its slice");
    const index = (this.#index ??= this.#prepare());
    const record = stripLineEnd(index.textOf(position));
    if (!index.utf8 || this.#holdsNul) this.#refuseBadBytes(index, position, record);
    const fields = splitFields(record, this.#delimiter);
    if (!Array.isArray(fields)) throw this.#describeMalformed(index, position, record, fields);
    const names = this.#names;
    if (fields.length !== names.length) {
      throw this.#describeWrongCount(index, position, record, fields.length);
    }
    const item: Record<string, string> = {};
    for (let column = 0; column < names.length; column++) {
      item[names[column] ?? ""] = fields[column] ?? "";
    }
    return item;
  }

  #prepare(): RecordIndex {
    const bytes = this.#bytes;
    invariant(bytes !== null, "items are not asked for after their release");
    this.#holdsNul = bytes.includes(0);
    return new RecordIndex(this.#range, bytes, new CsvScanner(this.#delimiter));
  }

  #refuseBadBytes(index: RecordIndex, position: number, text: string): void {
    const place = { path: this.#path, line: index.lineOf(position), text };
    if (!isUtf8(index.bytesOf(position))) {
      throw describeBadRecord({
        ...place,
        code: "INVALID_UTF8",
        problem: "the record is not UTF-8",
        offset: Math.max(0, text.indexOf("\ufffd")),
        remedy: "Save the file as UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8.",
      });
    }
    const nul = text.indexOf("\0");
    if (nul === -1) return;
    throw describeBadRecord({
      ...place,
      code: "NUL_BYTE",
      problem: "the record contains a NUL byte",
      offset: nul,
      remedy: "Was the file damaged, or written by several programs at once? Write it again.",
    });
  }

  #describeMalformed(
    index: RecordIndex,
    position: number,
    text: string,
    fault: CsvFault,
  ): PermanentError {
    const before = text.slice(0, fault.offset);
    const lineStart = before.lastIndexOf("\n") + 1;
    return describeBadRecord({
      code: "MALFORMED_RECORD",
      path: this.#path,
      line: index.lineOf(position) + before.split("\n").length - 1,
      column: fault.offset - lineStart + 1,
      problem: fault.problem,
      text,
      offset: fault.offset,
      remedy: "Put the whole field in quotes, and write a quote within it twice.",
    });
  }

  #describeWrongCount(
    index: RecordIndex,
    position: number,
    text: string,
    fields: number,
  ): PermanentError {
    return describeBadRecord({
      code: "WRONG_FIELD_COUNT",
      path: this.#path,
      line: index.lineOf(position),
      problem: `the record has ${fields} fields and the header ${this.#names.length}`,
      text,
      remedy: `Correct the record, or the delimiter (now ${JSON.stringify(this.#delimiter)}).`,
    });
  }
}
