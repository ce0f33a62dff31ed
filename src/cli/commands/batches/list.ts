/** `sluice list`: the batches of a store, newest first. */
import { type Command, Option } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import { viewBatchFully } from "../../../views/batch.ts";
import { describeStepTurn } from "../../../views/step.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { readNumber } from "../../config/config.ts";
import { addExamples } from "../../flags/command-help.ts";
import { addLimitFlag, readLimitFlag } from "../../flags/limit-flag.ts";
import type { Cli } from "../../output/cli.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { formatCount } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { type ListedBatch, renderBatches } from "../../render/batches.ts";
import { readHold } from "../../session/read-hold.ts";
import { withStore } from "../../session/with-store.ts";

interface ListFlags extends CommonFlags {
  readonly pipeline?: string;
  readonly state?: BatchState[];
  readonly limit?: string;
}

const LIMIT = 20;

export function addListCommand(program: Command, cli: Cli): void {
  const command = program
    .command("list")
    .summary("list batches, newest first")
    .description("List the batches of a store, newest first")
    .option("--pipeline <name>", "only batches of this pipeline")
    .addOption(
      new Option("--state <state...>", "only batches in these states").choices(BATCH_STATES),
    );
  addLimitFlag(command, "batches", String(LIMIT)).action(async () => {
    cli.finish(await list(cli, command.optsWithGlobals<ListFlags>()));
  });
  addExamples(command, [
    ["sluice list", "the newest batches"],
    ["sluice list --state failed --limit 100", "failed batches"],
    ["sluice list --json", "one JSON object per line"],
  ]);
}

function list(cli: Cli, flags: ListFlags): Promise<number> {
  return withStore(cli, flags, [readLimitFlag(flags.limit)], async ({ store }) => {
    const limit = readNumber(flags.limit) ?? LIMIT;
    const batches = await store.listBatches({
      // One more, to know whether there are more.
      limit: limit + 1,
      ...(flags.pipeline === undefined ? {} : { pipeline: flags.pipeline }),
      ...(flags.state === undefined ? {} : { states: flags.state }),
    });
    const shown = batches.slice(0, limit);
    const wallMs = cli.clock.wallMs();
    if (flags.json === true) {
      for (const batch of shown) cli.out.line(formatJson(viewBatchFully(batch, wallMs)));
      return EXIT.ok;
    }
    const listed: ListedBatch[] = [];
    for (const batch of shown) {
      const note = await describeNote(store, batch, wallMs);
      listed.push({ view: viewBatchFully(batch, wallMs), note });
    }
    if (listed.length === 0) cli.err.line("no batches");
    else for (const line of renderBatches(listed, wallMs, cli.out)) cli.out.line(line);
    if (batches.length > limit) cli.err.line("there are more: --limit <n> shows them");
    return EXIT.ok;
  });
}

/** What it waits for, which step it is at, how often it was redriven, when it expires. */
async function describeNote(
  store: Store,
  batch: BatchSnapshot,
  wallMs: number,
): Promise<string | null> {
  const isOver = isEnded(batch.state);
  const { deadlineAt, drive } = batch;
  const left = deadlineAt === null || isOver ? null : deadlineAt - wallMs;
  const parts = [
    isOver ? null : (await readHold(store, batch)).text,
    isOver ? null : describeStepTurn(batch),
    drive > 1 ? `drive ${formatCount(drive)}` : null,
    left === null ? null : left > 0 ? `expires in ${formatDuration(left)}` : "expires now",
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join("; ");
}
