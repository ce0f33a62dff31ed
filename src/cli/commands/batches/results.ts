/** `sluice results`: what the items of a batch returned, or which items have an outcome; streamed. */
import { type Command, Option } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { ITEM_OUTCOMES, type ItemOutcomeWord } from "../../../core/items/outcome-list.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import { getLastStep, hasSteps, nameStep } from "../../../views/step.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { addExamples } from "../../flags/command-help.ts";
import { findStep } from "../../flags/step-flag.ts";
import type { Cli } from "../../output/cli.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { OutputFile } from "../../output/output-file.ts";
import { type Block, writeCsv, writeItems, writeJsonl } from "../../session/result-blocks.ts";
import { withBatch } from "../../session/with-store.ts";

const FORMATS = ["jsonl", "csv"] as const;
type Format = (typeof FORMATS)[number];

interface ResultsFlags extends CommonFlags {
  readonly outcome?: ItemOutcomeWord;
  readonly format?: Format;
  readonly output?: string;
  readonly step?: string;
}

export function addResultsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("results")
    .summary("print returned values, or list items by outcome")
    .description(
      "Print the values that the items of a step returned, in item order. With --outcome, list the " +
        "items that have this outcome, with their payload where the batch owns its items.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .addOption(
      new Option("--outcome <outcome>", "items with this outcome, instead of values").choices(
        ITEM_OUTCOMES,
      ),
    )
    .addOption(new Option("--format <format>", "output format").choices(FORMATS).default("jsonl"))
    .option("--step <name>", "items of this step (default: the last one)")
    .option("-o, --output <file>", "write to this file, completely or not at all")
    .action(async (id: string) => {
      cli.finish(await results(cli, id, command.optsWithGlobals<ResultsFlags>()));
    });
  addExamples(
    command,
    [
      ["sluice results b-k3x > results.jsonl", "one JSON object per line"],
      ["sluice results b-k3x --format csv -o out.csv", "for a spreadsheet"],
      ["sluice results b-k3x --outcome cancelled", "items that never ran"],
    ],
    [
      'A line of JSONL is {"item", "key", "value"}; with --outcome {"item", "payload"}.',
      "CSV has the columns item and key, then one for each field if all values are flat",
      "objects, else one column with the value as JSON. A CSV text that starts with",
      "= + - @, a tab or a line end gets an apostrophe in front, so that no spreadsheet",
      "runs it as a formula. Numbers stay as they are. JSONL is exact.",
    ],
  );
}

function results(cli: Cli, id: string, flags: ResultsFlags): Promise<number> {
  checkFormat(flags);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const step = flags.step === undefined ? getLastStep(batch) : findStep(batch, flags.step);
    const { outcome, output } = flags;
    const blocks =
      outcome === undefined
        ? await writeResults(cli, store, batch, step, flags)
        : writeItems(store, batch.id, step, outcome);
    const written =
      output === undefined ? await printBlocks(blocks, cli) : await saveBlocks(blocks, output);
    if (outcome === undefined && written === 0) cli.err.line(describeNone(batch, step));
    else if (output !== undefined) {
      const noun = outcome === undefined ? "result" : "item";
      cli.err.line(`${countNoun(written, noun)} in ${output}`);
    }
    return EXIT.ok;
  });
}

function checkFormat({ format, json, outcome }: ResultsFlags): void {
  if (format !== "csv") return;
  const other = json === true ? "--json" : outcome === undefined ? null : "--outcome";
  if (other === null) return;
  throw new SluiceError("USAGE", `${other} and --format csv cannot be combined`, {
    hint: "Remove one of them.",
  });
}

async function writeResults(
  { out, err }: Cli,
  store: Store,
  batch: BatchSnapshot,
  step: number,
  { format, output }: ResultsFlags,
): Promise<AsyncGenerator<Block>> {
  // A file gets the exact cell; a terminal gets it without control characters.
  const isShown = out.isTerminal && output === undefined;
  const blocks =
    format === "csv"
      ? await writeCsv(store, batch, step, isShown)
      : writeJsonl(store, batch.id, step);
  if (!isEnded(batch.state)) {
    err.line(`batch ${batch.id} is unfinished: these are its results so far`);
  }
  return blocks;
}

function describeNone(batch: BatchSnapshot, step: number): string {
  if (!hasSteps(batch)) return "no results: no item returned a value";
  const others = batch.settings.steps.filter((_, at) => at !== step).map(({ name }) => name);
  return `no results: no item of step ${nameStep(batch, step)} returned a value; --step takes ${others.join(", ")}`;
}

async function printBlocks(blocks: AsyncIterable<Block>, { out, clock }: Cli): Promise<number> {
  let written = 0;
  for await (const { text, lines } of blocks) {
    if (out.closed) break;
    await out.write(text);
    written += lines;
    // A closed pipe shows only when the event loop turns.
    await clock.turn();
  }
  return written;
}

async function saveBlocks(blocks: AsyncIterable<Block>, path: string): Promise<number> {
  const file = await OutputFile.create(path);
  try {
    let written = 0;
    for await (const { text, lines } of blocks) {
      await file.write(text);
      written += lines;
    }
    await file.finish();
    return written;
  } catch (error) {
    await file.discard();
    throw error;
  }
}
