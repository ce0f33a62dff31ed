/** `sluice results`: what the items of a batch returned, in item order, streamed. */
import { type Command, Option } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { type CsvCell, writeCsvRow } from "../../output/csv-text.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { makeInert, makeInertJson } from "../../output/inert-text.ts";
import { OutputFile } from "../../output/output-file.ts";
import { findColumns } from "../../render/result-columns.ts";
import { getLastStep, readResultPages } from "../../session/result-pages.ts";
import { findStep, hasSteps, nameStep } from "../../../views/step.ts";
import { withBatch } from "../../session/with-store.ts";

const FORMATS = ["jsonl", "csv"] as const;
type Format = (typeof FORMATS)[number];

interface ResultsFlags extends CommonFlags {
  readonly format?: Format;
  readonly output?: string;
  readonly step?: string;
}

export function addResultsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("results")
    .summary("print what the items returned, as JSONL or CSV")
    .description(
      "Prints the values that a batch's items returned, in item order: those of its last step, or of " +
        "another one.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .addOption(new Option("--format <format>", "how").choices(FORMATS).default("jsonl"))
    .option("--step <name>", "the results of this step (default: the last one)")
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
    const step = flags.step === undefined ? getLastStep(batch) : findStep(batch, flags.step);
    // In a file a cell is what it is; on a terminal it must not steer.
    const isShown = cli.out.isTerminal && flags.output === undefined;
    const blocks =
      format === "csv"
        ? await writeCsv(store, batch, step, isShown)
        : writeJsonl(store, batch.id, step);
    if (!isEnded(batch.state)) {
      cli.err.line(`batch ${batch.id} is unfinished: these are its results so far`);
    }
    const written =
      flags.output === undefined
        ? await printBlocks(blocks, cli)
        : await saveBlocks(blocks, flags.output);
    if (written === 0) cli.err.line(describeNone(batch, step));
    else if (flags.output !== undefined) {
      cli.err.line(`${countNoun(written, "result")} in ${flags.output}`);
    }
    return EXIT.ok;
  });
}

function describeNone(batch: BatchSnapshot, step: number): string {
  if (!hasSteps(batch)) return "no results: no item returned a value";
  const others = batch.settings.steps.filter((_, at) => at !== step).map(({ name }) => name);
  return `no results: no item of step ${nameStep(batch, step)} returned a value; --step takes ${others.join(", ")}`;
}

/** Whole lines, as many as a page of results makes: a line at a time costs three times as much. */
interface Block {
  readonly text: string;
  readonly results: number;
}

async function* writeJsonl(store: Store, batch: string, step: number): AsyncGenerator<Block> {
  for await (const page of readResultPages(store, batch, step)) {
    // The value is JSON already; reading it would round its large numbers.
    const lines = page.map(
      ({ item, key, value }) => `{"item":${item},"key":${JSON.stringify(key)},"value":${value}}`,
    );
    yield { text: joinLines(lines.map(makeInertJson)), results: page.length };
  }
}

async function writeCsv(
  store: Store,
  batch: BatchSnapshot,
  step: number,
  isShown: boolean,
): Promise<AsyncGenerator<Block>> {
  if (!isEnded(batch.state)) {
    throw new SluiceError("BATCH_UNFINISHED", `batch ${batch.id} is ${batch.state}`, {
      hint: "CSV needs all results to know its columns: wait for the end, or take --format jsonl.",
    });
  }
  const { titles, row } = await findColumns(readResultPages(store, batch.id, step));
  const write = (rows: readonly CsvCell[][]): string =>
    joinLines(rows.map(writeCsvRow).map((line) => (isShown ? makeInert(line) : line)));
  return (async function* () {
    yield { text: write([[...titles]]), results: 0 };
    for await (const page of readResultPages(store, batch.id, step)) {
      yield { text: write(page.map(row)), results: page.length };
    }
  })();
}

function joinLines(lines: readonly string[]): string {
  return `${lines.join("\n")}\n`;
}

async function printBlocks(blocks: AsyncIterable<Block>, { out, clock }: Cli): Promise<number> {
  let written = 0;
  for await (const { text, results: count } of blocks) {
    if (out.closed) break;
    await out.write(text);
    written += count;
    // A reader that went away shows only when the loop turns.
    await clock.turn();
  }
  return written;
}

async function saveBlocks(blocks: AsyncIterable<Block>, path: string): Promise<number> {
  const file = await OutputFile.create(path);
  try {
    let written = 0;
    for await (const { text, results: count } of blocks) {
      await file.write(text);
      written += count;
    }
    await file.finish();
    return written;
  } catch (error) {
    await file.discard();
    throw error;
  }
}
