/**
 * A CSV file: the first record names the columns, each further one is an item whose values are
 * text.
 *
 * Quoted fields may contain delimiters, line ends and doubled quotes. A slice is a byte range and
 * its checksum, as with JSONL; its locator also contains the checksum of the header, because the
 * same bytes under other names would be other items.
 */
import type { FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { SluiceError } from "../../core/base/errors.ts";
import type { Slice, SliceItems, SliceRequest, Source } from "../../ports/source.ts";
import { type HeaderRules, nameColumns, parseKnownHeader, readHeader } from "./csv-header.ts";
import { CsvItems } from "./csv-items.ts";
import { CsvScanner } from "./csv-scanner.ts";
import { checkFileOptions, FILE_OPTION_NAMES, type FileOptions } from "../files/file-options.ts";
import { resumeAfter, sliceFile } from "../files/file-slicing.ts";
import { checkOptionNames, checkPath, checkRequest } from "../files/option-checks.ts";
import { OverlongRecord } from "../files/overlong-record.ts";
import { type MakePiece, readRanges } from "../files/range-reader.ts";
import { ReadBuffers } from "../files/read-buffers.ts";
import { parseRange, spellCursor, spellRange } from "../files/record-range.ts";
import { SliceBuilder } from "../files/slice-builder.ts";
import { openSourceFile, readFully, SourceFile } from "../files/source-file.ts";
import { skipMark } from "../files/text-encoding.ts";

export interface CsvOptions extends FileOptions {
  /** What separates fields: one ASCII character, `,` by default; often `;` or a tab. */
  readonly delimiter?: string;
  /** True (the default): the first record names the columns. A list: the file has no such record. */
  readonly header?: true | readonly string[];
  /** Other names for properties, by the name in the header: `{ "E-mail": "email" }`. */
  readonly columns?: Readonly<Record<string, string>>;
}

const KIND = "csv";

/**
 * The records of a CSV file as items, one object of text for each.
 *
 * ```ts
 * const source = csv<{ id: string; email: string }>("contacts.csv", {
 *   delimiter: ";",
 *   columns: { "E-mail": "email" },
 * });
 * ```
 */
export function csv<Item = Record<string, string>>(
  path: string,
  options: CsvOptions = {},
): Source<Item> {
  checkOptionNames(KIND, options, [...FILE_OPTION_NAMES, "delimiter", "header", "columns"]);
  const rules = checkRules(checkPath(KIND, path), options);
  return new CsvSource(path, rules, checkFileOptions(KIND, options));
}

class CsvSource implements Source<never> {
  readonly kind = KIND;
  readonly isLocal: boolean;
  readonly #file: SourceFile;
  readonly #rules: HeaderRules;
  readonly #buffers = new ReadBuffers();
  readonly #options: Required<FileOptions>;
  /** The last parsed header, by its checksum: it is nearly always the same one. */
  #known: {
    readonly bytes: number;
    readonly crc: number;
    readonly names: readonly string[];
  } | null = null;

  constructor(path: string, rules: HeaderRules, options: Required<FileOptions>) {
    this.#file = new SourceFile(path);
    this.#rules = rules;
    this.#options = options;
    this.isLocal = !options.shared;
  }

  async *slice(request: SliceRequest): AsyncGenerator<Slice> {
    checkRequest(KIND, request);
    const { chunkSize, sliceBytesMax, after } = request;
    const { itemBytesMax, bufferBytes } = this.#options;
    const path = this.#file.path;
    const handle = await openSourceFile(path);
    try {
      const markBytes = await skipMark(path, handle);
      const header = await readHeader(path, handle, this.#rules);
      if (header === null) return;
      const start =
        after === null
          ? { byte: Math.max(markBytes, header.bytes), line: header.lines + 1 }
          : await resumeAfter(KIND, path, handle, after);
      const limits = { chunkSize, sliceBytesMax, itemBytesMax };
      const scanner = new CsvScanner(this.#rules.delimiter);
      const builder = new SliceBuilder(scanner, start, limits);
      const proof = [header.bytes, header.crc];
      for await (const slices of sliceFile(path, handle, start, builder, bufferBytes)) {
        for (const slice of slices) {
          const { items, next } = slice;
          yield { items, locator: spellRange(slice, proof), cursor: spellCursor(next) };
        }
      }
    } finally {
      await handle.close();
    }
  }

  async read(locators: readonly string[]): Promise<readonly SliceItems[]> {
    const parsed = locators.map((locator) => parseRange(KIND, locator, 2));
    const ranges = parsed.map(({ range }) => range);
    const path = this.#file.path;
    return this.#file.use(async (handle) => {
      // All slices of one batch have the same header; it is compared with the file as it is now.
      const proofs = new Map(parsed.map(({ more }) => [more.join(), more]));
      let names: readonly string[] = [];
      for (const [bytes = 0, crc = 0] of proofs.values()) {
        names = await this.#provenNames(handle, bytes, crc);
      }
      return readRanges(path, handle, ranges, this.#makeItems(names), this.#buffers);
    });
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /** The names of the columns, after checking that the header is still that of the slices. */
  async #provenNames(handle: FileHandle, bytes: number, crc: number): Promise<readonly string[]> {
    const path = this.#file.path;
    if (this.#rules.names !== null) return nameColumns(path, this.#rules.names, this.#rules);
    const head = Buffer.alloc(bytes);
    const filled = await readFully(path, handle, head, 0);
    if (filled < bytes || crc32(head) !== crc) {
      throw new SluiceError(
        "SOURCE_CHANGED",
        `${path} has changed since it was sliced: its header (bytes 0 to ${bytes}, from line 1 on) is different`,
        {
          hint: "Submit the batch again; its source must not change while it runs.",
        },
      );
    }
    if (this.#known?.bytes !== bytes || this.#known.crc !== crc) {
      this.#known = { bytes, crc, names: parseKnownHeader(path, head, this.#rules) };
    }
    return this.#known.names;
  }

  #makeItems(names: readonly string[]): MakePiece<SliceItems> {
    const path = this.#file.path;
    return (range, bytes, release) => {
      const { delimiter } = this.#rules;
      if (!range.overlong) return new CsvItems(path, range, bytes, names, delimiter, release);
      const overlong = new OverlongRecord("record", path, range, bytes, this.#options.itemBytesMax);
      release();
      return overlong;
    };
  }
}

function checkRules(path: string, options: CsvOptions): HeaderRules {
  const { delimiter = ",", header = true, columns = {} } = options;
  if (!/^[\t\x20-\x7e]$/.test(delimiter) || delimiter === '"') {
    throw new SluiceError("BAD_OPTION", `csv(): delimiter is ${JSON.stringify(delimiter)}`, {
      field: "delimiter",
      hint: 'Give one ASCII character other than a quote or a line end, such as "," ";" or "\\t".',
    });
  }
  const rules = { delimiter, names: header === true ? null : header, columns };
  if (rules.names !== null) checkNames(path, rules, rules.names);
  return rules;
}

function checkNames(path: string, rules: HeaderRules, names: readonly unknown[]): void {
  if (
    !Array.isArray(names) ||
    names.length === 0 ||
    names.some((name) => typeof name !== "string")
  ) {
    throw new SluiceError("BAD_OPTION", "csv(): header is neither true nor a list of names", {
      field: "header",
      hint: "Leave it out when the first record names the columns.",
    });
  }
  nameColumns(path, names as readonly string[], rules);
}
