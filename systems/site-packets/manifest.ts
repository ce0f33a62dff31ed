/**
 * Reads a manifest, JSONL or CSV, one entry at a time, and reports every bad line with its number. A
 * manifest with a bad line is refused whole, so it is never half done.
 */
import { isUtf8 } from "node:buffer";
import { createReadStream } from "node:fs";
import { pipeline, type Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { SluiceError } from "sluice";
import { type Config, describeIssue } from "./config.ts";
import { type Entry, entrySchema } from "./entry.ts";

/** A longer line is not an entry. */
const LINE_BYTES_MAX = 65_536;
/** The most problems that are reported; a file of another type would have one in every line. */
const PROBLEMS_MAX = 20;
/** The longest text of a problem: a line may have thousands of unknown fields. */
const PROBLEM_CHARS_MAX = 300;

interface Line {
  readonly line: number;
  readonly value: unknown;
}

/**
 * Every entry, in order. Throws at the end, with all problems, or as soon as there are too many.
 */
export async function* readManifest(path: string, config: Config): AsyncGenerator<Entry> {
  const problems: string[] = [];
  let entries = 0;
  const lines = /\.csv$/i.test(path) ? readCsv(path) : readJsonl(path);
  try {
    for await (const { line, value } of lines) {
      const entry = checkLine(value, config);
      if (typeof entry === "string") problems.push(describeProblem(line, entry));
      else {
        entries++;
        if (problems.length === 0) yield entry;
      }
      if (problems.length >= PROBLEMS_MAX) break;
    }
  } catch (error) {
    // No later line can be recognised.
    if (error instanceof CsvError)
      problems.push(describeProblem(Number(error["lines"]), error.message));
    else throw describeFailure(path, error);
  }
  if (problems.length > 0) throw refuse(path, problems);
  if (entries === 0) throw refuse(path, ["it has no entries"]);
}

/** The entry, or its problems. */
function checkLine(value: unknown, { sites }: Config): Entry | string {
  if (value instanceof BadLine) return value.message;
  const checked = entrySchema.safeParse(value);
  if (!checked.success) return checked.error.issues.map(describeIssue).join("; ");
  const { site } = checked.data;
  if (Object.hasOwn(sites, site)) return checked.data;
  const known = Object.keys(sites);
  const some = known.slice(0, 5).join(", ") + (known.length > 5 ? ", …" : "");
  return `site: there is no site ${JSON.stringify(site)} in the configuration, which has ${some}`;
}

class BadLine extends Error {}

/** In place of a path. */
export const STANDARD_INPUT = "-";

function openInput(path: string): Readable {
  return path === STANDARD_INPUT ? process.stdin : createReadStream(path);
}

function describeProblem(line: number, what: string): string {
  const shown = what.length <= PROBLEM_CHARS_MAX ? what : `${what.slice(0, PROBLEM_CHARS_MAX)}…`;
  return `line ${line}: ${shown}`;
}

async function* readJsonl(path: string): AsyncGenerator<Line> {
  let line = 0;
  for await (const bytes of readLines(path)) {
    line++;
    const text = line === 1 ? bytes.toString().replace(/^\uFEFF/, "") : bytes.toString();
    if (text.trim() !== "") yield { line, value: parseLine(text, bytes) };
  }
}

const LINE_FEED = 0x0a;

/** Of a line without an end only the allowed length is read; the rest is ignored. */
async function* readLines(path: string): AsyncGenerator<Buffer> {
  let begun = Buffer.alloc(0);
  for await (const piece of openInput(path) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = piece.indexOf(LINE_FEED); end !== -1; end = piece.indexOf(LINE_FEED, from)) {
      yield Buffer.concat([begun, piece.subarray(from, end)]);
      begun = Buffer.alloc(0);
      from = end + 1;
    }
    begun = Buffer.concat([begun, piece.subarray(from)]);
    if (begun.length > LINE_BYTES_MAX) break;
  }
  if (begun.length > 0) yield begun;
}

const NOT_UTF8 = "it is not UTF-8";

function parseLine(text: string, bytes: Buffer): unknown {
  if (bytes.length > LINE_BYTES_MAX) {
    return new BadLine(`it is longer than the ${LINE_BYTES_MAX} bytes of an entry`);
  }
  if (!isUtf8(bytes)) return new BadLine(NOT_UTF8);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    return new BadLine(
      `it is not valid JSON: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Empty fields are left out: CSV has no other way to omit a value. */
async function* readCsv(path: string): AsyncGenerator<Line> {
  const parser = parse({
    bom: true,
    columns: (names: string[]) => checkHeader(path, names),
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: LINE_BYTES_MAX,
  });
  // The loop throws errors of the file.
  pipeline(openInput(path), parser, () => {});
  for await (const { record, info } of parser as AsyncIterable<{
    readonly record: { readonly [column: string]: string };
    readonly info: { readonly lines: number; readonly error?: Error };
  }>) {
    const given = Object.entries(record).filter(([, field]) => field !== "");
    // The parser replaces invalid bytes with this character.
    const why = given.some(([, field]) => field.includes("\uFFFD"))
      ? NOT_UTF8
      : info.error?.message;
    const value = why === undefined ? Object.fromEntries(given) : new BadLine(why);
    yield { line: info.lines, value };
  }
}

/** A repeated or unknown column would be dropped silently. */
function checkHeader(path: string, names: string[]): string[] {
  const known = Object.keys(entrySchema.shape);
  const problems = names.flatMap((name, at) => {
    if (!known.includes(name)) {
      return [`there is no field ${JSON.stringify(name)}; an entry has ${known.join(", ")}`];
    }
    return names.indexOf(name) < at ? [`the column ${name} is repeated`] : [];
  });
  if (problems.length === 0) return names;
  throw refuse(path, [describeProblem(1, problems.join("; "))]);
}

function refuse(path: string, problems: readonly string[]): SluiceError {
  const more = problems.length >= PROBLEMS_MAX ? "\n  - and possibly more" : "";
  return new SluiceError(
    "BAD_MANIFEST",
    `the manifest ${path} cannot be used; nothing was ingested:\n${problems.map((one) => `  - ${one}`).join("\n")}${more}`,
    { hint: "Fix these lines and run the same command again." },
  );
}

function describeFailure(path: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof SluiceError || code === undefined) return error as Error;
  return new SluiceError("BAD_MANIFEST", `the manifest ${path} cannot be read: ${message}`, {
    hint: "A manifest is a file of JSON lines, or of comma-separated values with a header.",
    cause: error,
  });
}
