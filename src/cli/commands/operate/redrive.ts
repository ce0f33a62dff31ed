/** `sluice redrive`: redrives dead letters of a batch. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import type { BatchFacts } from "../../../core/batch/why.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { Operator, type RedriveOptions } from "../../../runtime/engine/operator.ts";
import { type ActFlags, addActFlags, addYesFlag, readActOptions } from "../../flags/act-flags.ts";
import { nameHold } from "../../render/batch-words.ts";
import { readHold } from "../../session/read-hold.ts";
import { type Redriven, viewRedriven } from "../../../views/act.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { addLimitFlag, readLimitFlag } from "../../flags/limit-flag.ts";
import { readRate } from "../../flags/limit-words.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { readNumber } from "../../config/config.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { countNoun, formatCount } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import {
  addLetterFlags,
  checkLetterFlags,
  type LetterFlags,
  readLetterFilter,
} from "../../flags/letter-flags.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { withBatch } from "../../session/with-store.ts";

interface RedriveFlags extends ActFlags, LetterFlags {
  readonly limit?: string;
  readonly rate?: string;
  readonly withCancelled?: boolean;
  readonly dryRun?: boolean;
}

const RATE_MAX = 1_000_000;

export function addRedriveCommand(program: Command, cli: Cli): void {
  const command = program
    .command("redrive")
    .summary("put dead letters back to work")
    .description(
      "Put the dead letters of a batch back to work: all, or those that match every filter. This reopens " +
        "an ended batch at the front of its lane. Discarded dead letters stay as they are.",
    )
    .argument("<batch>", ABOUT_BATCH);
  addLimitFlag(addLetterFlags(command), "dead letters")
    .option("--rate <rate>", "rate of the items: 5/s, 30/min or 100/h (default: all at once)")
    .option("--with-cancelled", "also items that were cancelled by an early end")
    .option("--dry-run", "show what would be done, and change nothing");
  addYesFlag(addActFlags(command)).action(async (id: string) => {
    cli.finish(await redrive(cli, id, command.optsWithGlobals<RedriveFlags>()));
  });
  addExamples(command, [
    ["sluice redrive b-k3x --dry-run", "the number of dead letters"],
    ["sluice redrive b-k3x --code TIMEOUT --rate 5/s", "five per second"],
    ["sluice redrive b-k3x --item 17 --yes", "one item, without confirmation"],
    ["sluice redrive b-k3x --with-cancelled", "continue a cancelled batch"],
  ]);
}

function redrive(cli: Cli, id: string, flags: RedriveFlags): Promise<number> {
  checkLetterFlags(flags);
  const perSecond = readPerSecond(flags.rate);
  return withBatch(
    cli,
    id,
    flags,
    [readLimitFlag(flags.limit)],
    async (batch, { store, config }) => {
      const ceiling = readNumber(flags.limit);
      const options: RedriveOptions = {
        ...readActOptions(flags),
        ...readLetterFilter(batch, flags),
        ...(ceiling === undefined ? {} : { ceiling }),
        ...(perSecond === undefined ? {} : { perSecond }),
        withCancelled: flags.withCancelled === true,
      };
      const operator = new Operator(store, cli.clock);
      const planned = await operator.redrive(batch.id, { ...options, dryRun: true });
      const isDry = flags.dryRun === true;
      if (!isDry && isEnded(batch.state)) {
        await confirmAct(cli, flags, describeQuestion(batch, planned));
      }
      const result = isDry ? planned : await operator.redrive(batch.id, options);
      const { text: hold, facts } = await readHold(store, result.batch);
      if (flags.json === true) cli.out.line(formatJson(viewRedriven(result, isDry, hold, facts)));
      else {
        printRedriven(cli, result, isDry, perSecond);
        if (!isDry && result.redriven + result.revived > 0) {
          cli.err.line(makeInert(describeNext(facts, hold, config.storeFlag)));
        }
      }
      return EXIT.ok;
    },
  );
}

function describeQuestion({ id, state }: BatchSnapshot, planned: Redriven): string {
  return `Reopen batch ${id} (${state}) with ${describeParts(planned)}?`;
}

/** "3 dead letters and 40 cancelled items" */
function describeParts({ redriven, revived }: Redriven): string {
  return [
    ...(redriven > 0 || revived === 0 ? [countNoun(redriven, "dead letter")] : []),
    ...(revived > 0 ? [countNoun(revived, "cancelled item")] : []),
  ].join(" and ");
}

function printRedriven(
  { out }: Cli,
  result: Redriven,
  isDry: boolean,
  perSecond: number | undefined,
): void {
  const { redriven, revived, busy, left, batch } = result;
  const paced =
    perSecond === undefined || redriven < 2
      ? ""
      : `, over ${formatDuration(((redriven - 1) * 1_000) / perSecond)}`;
  const verb = isDry ? "would go back to work" : "back to work";
  const drive = isDry || redriven + revived === 0 ? "" : ` in drive ${formatCount(batch.drive)}`;
  out.line(`${describeParts(result)} ${verb}${drive}${paced}`);
  if (busy > 0) {
    out.line(
      `${countNoun(busy, "dead letter")} in chunks that run now: redrive again when they end`,
    );
  }
  if (left > 0) out.line(`${countNoun(left, "dead letter")} left, over the limit`);
}

function describeNext(
  facts: BatchFacts | null,
  hold: string | null,
  storeFlag: readonly string[],
): string {
  if (hold !== null) return `next: it ${nameHold(hold)}`;
  if (facts?.hasWorker === true) return "next: a worker has its pipeline and continues it";
  const where = storeFlag.length === 0 ? "" : ` ${quoteCommand(storeFlag)}`;
  return `next: no worker has its pipeline. Start one: sluice work <pipeline.ts>${where}`;
}

function readPerSecond(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const { perSecond } = readRate(text, undefined);
  if (perSecond > 0 && perSecond <= RATE_MAX) return perSecond;
  throw new SluiceError("USAGE", `--rate ${JSON.stringify(text)} is out of range`, {
    hint: `Give a rate above 0 and up to ${formatCount(RATE_MAX)}/s, for example 5/s or 30/min.`,
  });
}
