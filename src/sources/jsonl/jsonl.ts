/**
 * A file with one JSON value per line.
 *
 * It is scanned once for line ends, without parsing. A slice is a byte range and its checksum, and
 * a worker reads only the bytes of its slices. Blank lines are not items, CRLF and a UTF-8 mark are
 * accepted, the last line needs no line end. A line that cannot be read fails alone, with its
 * number; a file that changed under a batch is refused.
 */
import type { Slice, SliceItems, SliceRequest, Source } from "../../ports/source.ts";
import { checkFileOptions, FILE_OPTION_NAMES, type FileOptions } from "../files/file-options.ts";
import { resumeAfter, sliceFile } from "../files/file-slicing.ts";
import { JsonlItems } from "./jsonl-items.ts";
import { LineScanner } from "./line-scanner.ts";
import { checkOptionNames, checkPath, checkRequest } from "../files/option-checks.ts";
import { OverlongRecord } from "../files/overlong-record.ts";
import { type MakePiece, readRanges } from "../files/range-reader.ts";
import { ReadBuffers } from "../files/read-buffers.ts";
import { parseRange, spellCursor, spellRange } from "../files/record-range.ts";
import { SliceBuilder } from "../files/slice-builder.ts";
import { openSourceFile, SourceFile } from "../files/source-file.ts";
import { skipMark } from "../files/text-encoding.ts";

export type JsonlOptions = FileOptions;

const KIND = "jsonl";

/**
 * The lines of a JSONL file as items.
 *
 * ```ts
 * const source = jsonl<{ id: number; email: string }>("contacts.jsonl");
 * ```
 */
export function jsonl<Item = unknown>(path: string, options: JsonlOptions = {}): Source<Item> {
  checkOptionNames(KIND, options, FILE_OPTION_NAMES);
  return new JsonlSource(checkPath(KIND, path), checkFileOptions(KIND, options));
}

class JsonlSource implements Source<never> {
  readonly kind = KIND;
  readonly isLocal: boolean;
  readonly #file: SourceFile;
  readonly #options: Required<FileOptions>;
  readonly #buffers = new ReadBuffers();

  constructor(path: string, options: Required<FileOptions>) {
    this.#file = new SourceFile(path);
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
      const start =
        after === null
          ? { byte: markBytes, line: 1 }
          : await resumeAfter(KIND, path, handle, after);
      const limits = { chunkSize, sliceBytesMax, itemBytesMax };
      const builder = new SliceBuilder(new LineScanner(), start, limits);
      for await (const slices of sliceFile(path, handle, start, builder, bufferBytes)) {
        for (const slice of slices) {
          const { items, next } = slice;
          yield { items, locator: spellRange(slice), cursor: spellCursor(next) };
        }
      }
    } finally {
      await handle.close();
    }
  }

  async read(locators: readonly string[]): Promise<readonly SliceItems[]> {
    const ranges = locators.map((locator) => parseRange(KIND, locator, 0).range);
    return this.#file.use((handle) =>
      readRanges(this.#file.path, handle, ranges, this.#makeItems, this.#buffers),
    );
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  readonly #makeItems: MakePiece<SliceItems> = (range, bytes, release) => {
    const path = this.#file.path;
    if (!range.overlong) return new JsonlItems(path, range, bytes, release);
    const overlong = new OverlongRecord("line", path, range, bytes, this.#options.itemBytesMax);
    release();
    return overlong;
  };
}
