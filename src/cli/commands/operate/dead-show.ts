/** `sluice dead show`: one dead letter with all that is known of it, its payload included. */
import type { Command } from "commander";
import { formatInstant } from "../../../ports/clock.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import { openDeadLetter, type OpenedLetter } from "../../../runtime/engine/dead-letter.ts";
import { systemRandom } from "../../../runtime/system/system-random.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { type DeskFlags, findLetterStep, loadPipelineOf } from "../../session/dead-letter-desk.ts";
import { describeDiscarded, viewDeadLetter } from "../../render/dead-letters.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun, formatCount } from "../../output/format-number.ts";
import { formatJson, makeInert, makeInertLines } from "../../output/inert-text.ts";
import { readItem } from "../../flags/letter-flags.ts";
import type { Screen } from "../../output/screen.ts";
import { nameStep } from "../../../views/step.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { wrapLine } from "../../output/text-width.ts";
import { withBatch } from "../../session/with-store.ts";

interface ShowFlags extends CommonFlags, DeskFlags {}

export function addShowCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("show")
    .summary("one dead letter, with its payload")
    .description(
      "Shows one dead letter: its cause, attempts, checkpoint and payload. The payload of an item that a " +
        "source gave needs the file of the pipeline.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .argument("<item>", "the item's number, from 0 on")
    .option("--step <name>", "the step in which it died (default: the one that has it)")
    .option("--pipeline-file <file>", "the pipeline, to read the payload from its source")
    .action(async (id: string, item: string) => {
      cli.finish(await show(cli, id, item, readSubFlags<ShowFlags>(command)));
    });
  addExamples(command, [
    ["sluice dead show b-k3x 17", "what is known of it"],
    ["sluice dead show b-k3x 17 --pipeline-file import.ts", "with its payload"],
  ]);
}

async function show(cli: Cli, id: string, text: string, flags: ShowFlags): Promise<number> {
  const item = readItem(text);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const pipeline = await loadPipelineOf(batch, flags);
    const step = await findLetterStep(store, batch, item, flags);
    const parts = { store, clock: cli.clock, random: systemRandom };
    const letter = await openDeadLetter(parts, batch.id, step, item, pipeline);
    if (flags.json === true) {
      const { payload = null, payloadProblem, checkpoint } = letter;
      const view = { batch: batch.id, ...viewDeadLetter(letter, batch) };
      cli.out.line(formatJson({ ...view, checkpoint, payload, payloadProblem }));
    } else for (const line of renderLetter(letter, batch, cli.out)) cli.out.line(line);
    return EXIT.ok;
  });
}

const LABEL_COLUMNS = 14;

function renderLetter(letter: OpenedLetter, batch: BatchSnapshot, screen: Screen): string[] {
  const { bold, red, dim, cyan } = screen.colours;
  const { item, key, errorClass, code, attempts, deaths, drive, edited, checkpoint } = letter;
  const label = (name: string, value: string | null): string[] =>
    value === null ? [] : [`  ${dim(name.padEnd(LABEL_COLUMNS))}${makeInert(value)}`];
  const name = key === null ? "" : `  ${makeInert(key)}`;
  const message = makeInertLines(letter.message).flatMap((line) => wrapLine(line, screen.columns));
  return [
    `${bold(`item ${item}`)}${name}  ${dim(batch.id)}`,
    red(makeInert(code)),
    ...message,
    "",
    ...label("class", errorClass),
    ...label("step", nameStep(batch, letter.step)),
    ...label("attempts", formatCount(attempts)),
    ...label(
      "deaths",
      deaths === 0 ? null : `${countNoun(deaths, "process", "processes")} with it`,
    ),
    ...label("drive", formatCount(drive)),
    ...label("failed at", formatInstant(letter.failedAt)),
    ...label("discarded by", describeDiscarded(letter)),
    ...label("edited", edited ? "this payload is not the source's" : null),
    ...label(
      "checkpoint",
      checkpoint === null ? null : `${checkpoint.name} ${JSON.stringify(checkpoint.data)}`,
    ),
    "",
    ...(letter.payloadProblem === null
      ? [
          dim("payload"),
          ...JSON.stringify(letter.payload ?? null, null, 2)
            .split("\n")
            .map(makeInert),
        ]
      : [
          dim("no payload"),
          makeInert(letter.payloadProblem),
          cyan("hint: --pipeline-file <file> reads it from the pipeline's source."),
        ]),
  ];
}
