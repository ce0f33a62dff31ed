/**
 * Reads a manifest, JSONL or CSV, one entry at a time. Whatever is wrong with a line is said with its
 * number; nothing of a manifest with a bad line is worked on, so nothing of it can be half done.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { parse } from "csv-parse";
import { SluiceError } from "sluice";
import { type Config, describeIssue } from "./config.ts";
import { type Entry, entrySchema } from "./entry.ts";

/** A longer line is no entry. */
const LINE_BYTES_MAX = 65_536;
/** So many problems are told; a manifest of another kind would have one in every line. */
const PROBLEMS_MAX = 20;

interface Line {
  readonly line: number;
  readonly value: unknown;
}

/** Every entry, in order. Throws at the end, with all problems, or as soon as there are too many. */
export async function* readManifest(path: string, config: Config): AsyncGenerator<Entry> {
  const problems: string[] = [];
  let entries = 0;
  const lines = /\.csv$/i.test(path) ? readCsv(path) : readJsonl(path);
  try {
    for await (const { line, value } of lines) {
      const entry = checkLine(value, config);
      if (typeof entry === "string") problems.push(`line ${line}: ${entry}`);
      else {
        entries++;
        if (problems.length === 0) yield entry;
      }
      if (problems.length >= PROBLEMS_MAX) break;
    }
  } catch (error) {
    throw describeFailure(path, error);
  }
  if (problems.length > 0) throw refuse(path, problems);
  if (entries === 0) throw refuse(path, ["it has no entries"]);
}

/** The entry, or what is wrong with it. */
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

async function* readJsonl(path: string): AsyncGenerator<Line> {
  const input = createReadStream(path, { encoding: "utf8" });
  let line = 0;
  for await (const text of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    const bare = line === 1 ? text.replace(/^\uFEFF/, "") : text;
    if (bare.trim() !== "") yield { line, value: parseLine(bare) };
  }
}

function parseLine(text: string): unknown {
  if (text.length > LINE_BYTES_MAX) {
    return new BadLine(`it is longer than the ${LINE_BYTES_MAX} characters of an entry`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    return new BadLine(`it is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Empty fields are left out: that is how CSV says that there is none. */
async function* readCsv(path: string): AsyncGenerator<Line> {
  const parser = createReadStream(path).pipe(
    parse({
      bom: true,
      columns: true,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: LINE_BYTES_MAX,
    }),
  );
  for await (const { record, info } of parser as AsyncIterable<{
    readonly record: { readonly [column: string]: string };
    readonly info: { readonly lines: number; readonly error?: Error };
  }>) {
    const given = Object.entries(record).filter(([, field]) => field !== "");
    const value =
      info.error === undefined ? Object.fromEntries(given) : new BadLine(info.error.message);
    yield { line: info.lines, value };
  }
}

function refuse(path: string, problems: readonly string[]): SluiceError {
  const more = problems.length >= PROBLEMS_MAX ? "\n  - and maybe more" : "";
  return new SluiceError(
    "BAD_MANIFEST",
    `the manifest ${path} cannot be used, and nothing of it was:\n${problems.map((one) => `  - ${one}`).join("\n")}${more}`,
    { hint: "Mend these lines and run the same command again." },
  );
}

function describeFailure(path: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof SluiceError || code === undefined) return error as Error;
  const what = code.startsWith("CSV_") ? `is no CSV: ${message}` : `cannot be read: ${message}`;
  return new SluiceError("BAD_MANIFEST", `the manifest ${path} ${what}`, {
    hint: "A manifest is a file of JSON lines, or of comma-separated values with a header.",
    cause: error,
  });
}
