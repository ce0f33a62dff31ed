/** `sluice cancel`: stops a batch, a lane or a pipeline, and waits until nothing of it starts. */
import type { Command } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { Operator, type Target } from "../../../runtime/engine/operator.ts";
import { addActFlags, addYesFlag, readActOptions } from "../../flags/act-flags.ts";
import { awaitEndings, readBatches } from "../../session/await-endings.ts";
import { type CancelledView, viewCancelled } from "../../../views/cancel.ts";
import { describeNoWorker } from "../../render/batch-words.ts";
import { renderCancelled } from "../../render/cancel-report.ts";
import { readAbandoned } from "../../session/read-abandoned.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { confirmAct } from "../../output/confirm.ts";
import { decideSignalExitCode, EXIT } from "../../output/exit-codes.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { countNoun, formatCount } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { parseDuration } from "../../config/parse-duration.ts";
import { StopRequest } from "../../process/stop-request.ts";
import {
  addTargetFlags,
  checkTarget,
  findTarget,
  nameTarget,
  type TargetFlags,
} from "../../flags/target-flags.ts";
import { type StoreLook, withStore } from "../../session/with-store.ts";

interface CancelFlags extends TargetFlags {
  readonly drain?: boolean;
  readonly wait: boolean;
  readonly timeout?: string;
}

const TIMEOUT = "60s";
const UNFINISHED: readonly BatchState[] = BATCH_STATES.filter((state) => !isEnded(state));
const BATCHES_MAX = 100_000;

export function addCancelCommand(program: Command, cli: Cli): void {
  const command = addTargetFlags(
    program
      .command("cancel")
      .summary("cancel a batch, or all batches of a lane or a pipeline")
      .description(
        "Cancel a batch, or all unfinished batches of a lane or a pipeline: items that have not run are " +
          "cancelled, and running handlers are told to stop. Waits until no worker runs anything of it: from " +
          "then on nothing of the batch starts. A batch that has ended stays as it is.",
      ),
  )
    .option("--drain", "finish leased chunks instead of stopping running items")
    .option("--no-wait", "do not wait for running handlers to stop")
    .option("--timeout <duration>", `maximum time to wait (default: ${TIMEOUT})`);
  addYesFlag(addActFlags(command)).action(async (id: string | undefined) => {
    cli.finish(await cancel(cli, id, command.optsWithGlobals<CancelFlags>()));
  });
  addExamples(command, [
    ["sluice cancel b-k3x", "one batch"],
    ["sluice cancel b-k3x --drain --timeout 10m", "finish leased chunks first"],
    ['sluice cancel --lane case-7 --why "wrong files"', "all batches of a lane"],
    ["sluice cancel b-k3x --yes --json", "for scripts"],
  ]);
}

async function cancel(cli: Cli, id: string | undefined, flags: CancelFlags): Promise<number> {
  checkTarget(id, flags);
  const timeoutMs = parseDuration("--timeout", flags.timeout ?? TIMEOUT);
  const act = readActOptions(flags);
  return withStore(cli, flags, [], async (parts) => {
    const { store } = parts;
    const target = await findTarget(store, id, flags);
    const found = await listUnfinished(parts, target);
    if (found.length > 0) await confirmAct(cli, flags, describeQuestion(target, found));
    const mode = flags.drain === true ? "drain" : "now";
    const operator = new Operator(store, cli.clock);
    const { cancelled, endedBefore } = await operator.cancel(target, { ...act, mode });
    if (cancelled.length + endedBefore.length === 0) {
      cli.err.line(`nothing to cancel: ${nameTarget(target)} has no unfinished batch`);
      return EXIT.ok;
    }
    const over = await readBatches(store, endedBefore);
    for (const batch of over) {
      cli.err.line(`batch ${batch.id} had already ended: ${batch.state}. Nothing was changed`);
      if (flags.json !== true) continue;
      cli.out.line(formatJson(await view(cli, parts, batch, true)));
    }
    const stop = new StopRequest(cli.clock, cli.exitNow);
    try {
      await noteWorkers(parts, cancelled);
      const { clock } = cli;
      const { signal } = stop;
      const settings = parts.config.engine;
      const batches = flags.wait
        ? await awaitEndings(cancelled, { store, clock, settings, timeoutMs, signal })
        : await readBatches(store, cancelled);
      for (const batch of batches) {
        const cancelledView = await view(cli, parts, batch, false);
        if (flags.json === true) cli.out.line(formatJson(cancelledView));
        else for (const line of renderCancelled(cancelledView, cli.out)) cli.out.line(line);
      }
      return conclude(cli, batches, timeoutMs, stop, flags);
    } finally {
      stop.release();
    }
  });
}

async function listUnfinished(
  { store }: StoreLook,
  target: Target,
): Promise<readonly BatchSnapshot[]> {
  if ("batch" in target) {
    const batches = await readBatches(store, [target.batch]);
    return batches.filter(({ state }) => !isEnded(state));
  }
  return store.listBatches({ ...target, states: UNFINISHED, limit: BATCHES_MAX });
}

function describeQuestion(target: Target, found: readonly BatchSnapshot[]): string {
  const pending = found.reduce((sum, { counts }) => sum + counts.pending, 0);
  const what =
    "batch" in target
      ? nameTarget(target)
      : `${countNoun(found.length, "unfinished batch", "unfinished batches")} of ${nameTarget(target)}`;
  const rest = pending === 0 ? "" : `, with ${countNoun(pending, "item")} that have not run`;
  return `Cancel ${what}${rest}?`;
}

/** Says what the cancel waits for, and whether a live worker can release it. */
async function noteWorkers({ store, display }: StoreLook, ids: readonly string[]): Promise<void> {
  let atOnce = 0;
  for (const id of ids) {
    const facts = (await store.readWaiting(id, 0))?.batch ?? null;
    if (facts === null) continue;
    if (isEnded(facts.state)) {
      atOnce++;
      continue;
    }
    const held = `workers hold ${countNoun(facts.leased, "chunk")}`;
    display.note(`batch ${id}: cancel requested, ${describeNoWorker(facts) ?? held}`);
  }
  if (atOnce === 1) display.note("no worker held any of it, so it ended at once");
  if (atOnce > 1)
    display.note(`no worker held any of ${formatCount(atOnce)} of them: they ended at once`);
}

async function view(
  { clock }: Cli,
  { store }: StoreLook,
  batch: BatchSnapshot,
  endedBefore: boolean,
): Promise<CancelledView> {
  const abandoned = await readAbandoned(store, batch);
  return viewCancelled(batch, abandoned, endedBefore, clock.wallMs());
}

/** A cancel that is not acknowledged continues; only the wait is over. */
function conclude(
  cli: Cli,
  batches: readonly BatchSnapshot[],
  timeoutMs: number,
  stop: StopRequest,
  flags: CancelFlags,
): number {
  const open = batches.filter(({ state }) => !isEnded(state));
  if (open.length === 0 || !flags.wait) return EXIT.ok;
  const what =
    open.length === 1 ? `batch ${open[0]?.id}` : countNoun(open.length, "batch", "batches");
  if (stop.received !== null) {
    cli.err.line(
      `no longer waiting: the cancel of ${what} continues, and is done when the workers release it`,
    );
    return decideSignalExitCode(stop.received);
  }
  cli.err.line(
    `not acknowledged within ${formatDuration(timeoutMs)}: the cancel of ${what} continues, and is done when the workers release it`,
  );
  cli.err.line(
    `${cli.err.colours.cyan("hint:")} sluice status <batch> shows it; --timeout waits longer.`,
  );
  return EXIT.failed;
}
