/**
 * The names of a CSV file's columns: from its first record or from the options, renamed if the
 * options say so. A header that cannot name properties is refused before slicing.
 */
import { isUtf8 } from "node:buffer";
import type { FileHandle } from "node:fs/promises";
import { crc32 } from "node:zlib";
import { SluiceError } from "../../core/base/errors.ts";
import { invariant } from "../../core/base/invariant.ts";
import { excerpt } from "../files/bad-record.ts";
import { splitFields, stripLineEnd } from "./csv-fields.ts";
import { CsvScanner } from "./csv-scanner.ts";
import { readFully } from "../files/source-file.ts";
import { markBytesOf } from "../files/text-encoding.ts";

export interface CsvHeader {
  /** The properties of an item, in the order of the columns. */
  readonly names: readonly string[];
  /** How many bytes come before the first record, including the byte order mark and blank lines. */
  readonly bytes: number;
  readonly lines: number;
  /** CRC-32 of those bytes. */
  readonly crc: number;
}

export interface HeaderRules {
  readonly delimiter: string;
  /** Null when the file names its columns itself. */
  readonly names: readonly string[] | null;
  readonly columns: Readonly<Record<string, string>>;
}

/** A longer first record cannot be a header. */
const HEADER_BYTES_MAX = 1 << 20;
const FIRST_READ_BYTES = 16 << 10;

/** The header at the file's start; null when the file has no record at all. */
export async function readHeader(
  path: string,
  handle: FileHandle,
  rules: HeaderRules,
): Promise<CsvHeader | null> {
  if (rules.names !== null) {
    return { names: nameColumns(path, rules.names, rules), bytes: 0, lines: 0, crc: 0 };
  }
  for (let bytesMax = FIRST_READ_BYTES; bytesMax <= HEADER_BYTES_MAX; bytesMax *= 8) {
    const buffer = Buffer.alloc(bytesMax);
    const head = buffer.subarray(0, await readFully(path, handle, buffer, 0));
    const isWholeFile = head.length < bytesMax;
    const place = locateHeader(head, rules.delimiter);
    if (place?.ended || (place !== null && isWholeFile))
      return parseHeader(path, head, place, rules);
    if (isWholeFile) return null;
  }
  throw refuseHeader(path, `is longer than ${HEADER_BYTES_MAX} bytes`, "Is this a CSV file?");
}

/** Parses a header that was read before, from the same bytes. */
export function parseKnownHeader(
  path: string,
  head: Buffer,
  rules: HeaderRules,
): readonly string[] {
  const place = locateHeader(head, rules.delimiter);
  invariant(place !== null, "bytes that were a header still are one");
  return parseHeader(path, head, place, rules).names;
}

interface HeaderPlace {
  readonly from: number;
  readonly to: number;
  readonly lines: number;
  /** False when it continues to the end of the bytes, and perhaps beyond. */
  readonly ended: boolean;
}

/** The first record that is not blank. */
function locateHeader(head: Buffer, delimiter: string): HeaderPlace | null {
  const scanner = new CsvScanner(delimiter);
  scanner.take(head);
  let lines = 0;
  for (let from = markBytesOf(head); from < head.length; ) {
    const end = scanner.findEnd(from);
    const to = end === -1 ? head.length : end;
    lines += scanner.lines;
    if (!scanner.blank) return { from, to, lines, ended: end !== -1 };
    from = to;
  }
  return null;
}

function parseHeader(
  path: string,
  head: Buffer,
  place: HeaderPlace,
  rules: HeaderRules,
): CsvHeader {
  const { from, to, lines } = place;
  const cells = splitHeader(path, head.subarray(from, to), rules.delimiter);
  const names = nameColumns(path, cells, rules);
  return { names, bytes: to, lines, crc: crc32(head.subarray(0, to)) };
}

function splitHeader(path: string, record: Buffer, delimiter: string): readonly string[] {
  if (!isUtf8(record)) {
    throw refuseHeader(path, "is not UTF-8", "Save the file as UTF-8.");
  }
  const text = stripLineEnd(record.toString("utf8"));
  const fields = splitFields(text, delimiter);
  if (!Array.isArray(fields)) {
    const { problem, offset } = fields;
    const place = `column ${offset + 1}: ${excerpt(text, offset)}`;
    throw refuseHeader(path, `is malformed: ${problem}, ${place}`, "Correct the header.");
  }
  if (text.includes("\r")) {
    throw refuseHeader(
      path,
      "contains a bare carriage return",
      "Lines must end in LF or CRLF. Convert the file, for example with: tr '\\r' '\\n'.",
    );
  }
  return fields;
}

/** The property of each column, checked. */
export function nameColumns(
  path: string,
  cells: readonly string[],
  rules: HeaderRules,
): readonly string[] {
  const renamed = new Map(Object.entries(rules.columns));
  const unknown = [...renamed.keys()].filter((name) => !cells.includes(name));
  if (unknown.length > 0) {
    throw refuseHeader(
      path,
      `has no column ${list(unknown)}, which the option columns lists`,
      `It has ${list(cells)}. Correct the option, or the delimiter (now ${JSON.stringify(rules.delimiter)}).`,
    );
  }
  const names = cells.map((cell) => renamed.get(cell) ?? cell);
  const seen = new Set<string>();
  for (const [index, name] of names.entries()) {
    const column = `column ${index + 1}`;
    if (name === "") {
      throw refuseHeader(path, `has no name for ${column}`, "Name it, or give header as a list.");
    }
    if (name === "__proto__") {
      throw refuseHeader(
        path,
        `names ${column} __proto__`,
        "Rename it in the file, or give header as a list.",
      );
    }
    if (seen.has(name)) {
      throw refuseHeader(
        path,
        `names ${column} ${list([name])}, as another column before it`,
        "Rename one of them in the file, or give header as a list.",
      );
    }
    seen.add(name);
  }
  return names;
}

function list(names: readonly string[]): string {
  return excerpt(names.map((name) => JSON.stringify(name)).join(", "), 0);
}

function refuseHeader(path: string, problem: string, hint: string): SluiceError {
  return new SluiceError("BAD_HEADER", `the header of ${path} ${problem}`, { hint });
}
