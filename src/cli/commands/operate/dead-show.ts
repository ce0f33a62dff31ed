/** `sluice dead show`: everything about one dead letter, including its payload. */
import type { Command } from "commander";
import { Operator } from "../../../runtime/engine/operator.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { type DeskFlags, findLetterStep, loadPipelineOf } from "../../session/dead-letter-desk.ts";
import { viewDeadLetterFully } from "../../../views/dead-letter.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { renderDeadLetter } from "../../render/dead-letters.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson } from "../../output/inert-text.ts";
import { ABOUT_ITEM, ABOUT_LETTER_STEP, readItem } from "../../flags/letter-flags.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { withBatch } from "../../session/with-store.ts";

interface ShowFlags extends CommonFlags, DeskFlags {}

export function addShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("show one dead letter with its payload")
    .description(
      "Show one dead letter: its cause, attempts, checkpoint and payload. The payload of an item from a " +
        "source needs the pipeline file.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .argument("<item>", ABOUT_ITEM)
    .option("--step <name>", ABOUT_LETTER_STEP)
    .option("--pipeline-file <file>", "pipeline file, to read the payload from its source")
    .action(async (id: string, item: string) => {
      cli.finish(await show(cli, id, item, readSubFlags<ShowFlags>(command)));
    });
  addExamples(command, [
    ["sluice dead show b-k3x 17", "its cause and payload"],
    ["sluice dead show b-k3x 17 --pipeline-file import.ts", "with the payload from the source"],
  ]);
}

async function show(cli: Cli, id: string, text: string, flags: ShowFlags): Promise<number> {
  const item = readItem(text);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const pipeline = await loadPipelineOf(batch, flags);
    const step = await findLetterStep(store, batch, item, flags);
    const operator = new Operator(store, cli.clock);
    const letter = await operator.openDeadLetter(batch.id, { step, item, pipeline });
    const view = viewDeadLetterFully(letter, batch);
    if (flags.json === true) cli.out.line(formatJson(view));
    else for (const line of renderDeadLetter(view, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}
