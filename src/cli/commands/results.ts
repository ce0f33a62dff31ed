/** `sluice results`: what the items of a batch returned, in item order, streamed. */
import { type Command, Option } from "commander";
import { isEnded } from "../../core/batch.ts";
import { SluiceError } from "../../core/errors.ts";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import type { StoredResult } from "../../ports/reading.ts";
import type { Store } from "../../ports/store.ts";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-help.ts";
import type { CommonFlags } from "../common-flags.ts";
import { writeCsvRow } from "../csv-text.ts";
import { EXIT } from "../exit-codes.ts";
import { countNoun } from "../format-number.ts";
import { makeInert, makeInertJson } from "../inert-text.ts";
import { OutputFile } from "../output-file.ts";
import { findColumns } from "../result-columns.ts";
import { withBatch } from "../with-store.ts";

const FORMATS = ["jsonl", "csv"] as const;
type Format = (typeof FORMATS)[number];

interface ResultsFlags extends CommonFlags {
  readonly format?: Format;
  readonly output?: string;
}

const PAGE = 1_000;

export function addResultsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("results")
    .summary("print what the items returned, as JSONL or CSV")
    .description("Prints the values that a batch's items returned, in item order.")
    .argument("<batch>", "a batch's id, or its first characters")
    .addOption(new Option("--format <format>", "how").choices(FORMATS).default("jsonl"))
    .option("-o, --output <file>", "write to this file, which is there whole or not at all")
    .action(async (id: string) => {
      cli.finish(await results(cli, id, command.optsWithGlobals<ResultsFlags>()));
    });
  addExamples(
    command,
    [
      ["sluice results b-k3x > results.jsonl", "one JSON object a line"],
      ["sluice results b-k3x --format csv -o out.csv", "for a spreadsheet"],
    ],
    [
      'A line of JSONL is {"item", "key", "value"}. CSV has the columns item and key,',
      "then one for each field where all values are flat objects, else one column with",
      "the value as JSON. In CSV a text that begins with = + - @, a tab or a line end",
      "gets an apostrophe before it, so that no spreadsheet takes it for a formula;",
      "numbers stay as they are. JSONL is exact.",
    ],
  );
}

function results(cli: Cli, id: string, flags: ResultsFlags): Promise<number> {
  const format = flags.format ?? "jsonl";
  if (flags.json === true && format === "csv") {
    throw new SluiceError("USAGE", "--json and --format csv exclude each other", {
      hint: "Leave one of them out.",
    });
  }
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const lines = format === "csv" ? await writeCsv(store, batch) : writeJsonl(store, batch.id);
    if (!isEnded(batch.state))
      cli.err.line(`batch ${batch.id} is unfinished: these are its results so far`);
    const written =
      flags.output === undefined
        ? await printLines(lines, cli)
        : await saveLines(lines, flags.output);
    if (written === 0) cli.err.line("no results: no item returned a value");
    else if (flags.output !== undefined)
      cli.err.line(`${countNoun(written, "result")} in ${flags.output}`);
    return EXIT.ok;
  });
}

/** Lines, of which those that are no result (a header) are marked. */
interface Line {
  readonly text: string;
  readonly isResult: boolean;
}

async function* writeJsonl(store: Store, id: string): AsyncGenerator<Line> {
  for await (const { item, key, value } of readResults(store, id)) {
    // The value is JSON already; reading it would round its large numbers.
    const json = `{"item":${item},"key":${JSON.stringify(key)},"value":${value}}`;
    yield { text: makeInertJson(json), isResult: true };
  }
}

async function writeCsv(store: Store, batch: BatchSnapshot): Promise<AsyncGenerator<Line>> {
  if (!isEnded(batch.state)) {
    throw new SluiceError("BATCH_UNFINISHED", `batch ${batch.id} is ${batch.state}`, {
      hint: "CSV needs all results to know its columns: wait for the end, or take --format jsonl.",
    });
  }
  const { titles, row } = await findColumns(readResults(store, batch.id));
  return (async function* () {
    yield { text: writeCsvRow(titles), isResult: false };
    for await (const result of readResults(store, batch.id)) {
      yield { text: writeCsvRow(row(result)), isResult: true };
    }
  })();
}

async function* readResults(store: Store, id: string): AsyncGenerator<StoredResult> {
  let afterItem = -1;
  for (;;) {
    const page = await store.readResults(id, { afterItem, limit: PAGE });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    afterItem = last.item;
  }
}

async function printLines(lines: AsyncIterable<Line>, { out }: Cli): Promise<number> {
  let written = 0;
  for await (const { text, isResult } of lines) {
    if (out.closed) break;
    // In a file a cell is what it is; on a terminal it must not steer.
    await out.write(`${out.isTerminal ? makeInert(text) : text}\n`);
    if (isResult) written++;
  }
  return written;
}

async function saveLines(lines: AsyncIterable<Line>, path: string): Promise<number> {
  const file = await OutputFile.create(path);
  try {
    let written = 0;
    for await (const { text, isResult } of lines) {
      await file.write(`${text}\n`);
      if (isResult) written++;
    }
    await file.finish();
    return written;
  } catch (error) {
    await file.discard();
    throw error;
  }
}
