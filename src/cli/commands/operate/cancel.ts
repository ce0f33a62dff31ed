/** `sluice cancel`: stops a batch, a lane or a pipeline, and waits until nothing of it starts. */
import { type Command, Option } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import { Operator, type Target } from "../../../runtime/engine/operator.ts";
import { addActFlags, addYesFlag, readActOptions } from "../../flags/act-flags.ts";
import { awaitEndings, readBatches } from "../../session/await-endings.ts";
import { describeNobody } from "../../../views/hold.ts";
import { renderCancelled, viewCancelled } from "../../render/cancel-report.ts";
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
      .summary("stop a batch, a lane or a pipeline for good")
      .description(
        "Stops a batch, or all unfinished batches of a lane or a pipeline: what has not run is cancelled. " +
          "Waits until every worker has let go of it: from then on nothing of it starts. A batch that " +
          "has ended stays as it is.",
      ),
  )
    .option("--drain", "let chunks in hand finish; otherwise handlers are told to stop")
    .addOption(new Option("--now", "tell handlers to stop (the default)").conflicts("drain"))
    .option("--no-wait", "do not wait until workers have let go")
    .option("--timeout <duration>", `how long to wait (default: ${TIMEOUT})`);
  addYesFlag(addActFlags(command)).action(async (id: string | undefined) => {
    cli.finish(await cancel(cli, id, command.optsWithGlobals<CancelFlags>()));
  });
  addExamples(command, [
    ["sluice cancel b-k3x", "stop it, cancel the rest"],
    ["sluice cancel b-k3x --drain --timeout 10m", "let what is in hand finish"],
    ['sluice cancel --lane case-7 --why "wrong files"', "every batch of a lane"],
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
      cli.err.line(`batch ${batch.id} had ended before: ${batch.state}. Nothing was changed`);
      if (flags.json === true) await printJson(cli, parts, batch, true);
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
        if (flags.json === true) await printJson(cli, parts, batch, false);
        else await printCancelled(cli, parts, batch);
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

/** Says what is waited for, and whether anybody is there to let go of it. */
async function noteWorkers({ store, display }: StoreLook, ids: readonly string[]): Promise<void> {
  let atOnce = 0;
  for (const id of ids) {
    const facts = (await store.readWaiting(id, 0))?.batch ?? null;
    if (facts === null) continue;
    if (isEnded(facts.state)) {
      atOnce++;
      continue;
    }
    const held = `${countNoun(facts.leased, "chunk")} in workers' hands`;
    display.note(`batch ${id}: cancel requested, ${describeNobody(facts) ?? held}`);
  }
  if (atOnce === 1) display.note("nobody worked on it, so it ended at once");
  if (atOnce > 1)
    display.note(`nobody worked on ${formatCount(atOnce)} of them: they ended at once`);
}

async function printJson(
  { out, clock }: Cli,
  { store }: StoreLook,
  batch: BatchSnapshot,
  endedBefore: boolean,
): Promise<void> {
  out.line(formatJson(await viewCancelled(store, batch, endedBefore, clock.wallMs())));
}

async function printCancelled(
  { out, clock }: Cli,
  { store }: StoreLook,
  batch: BatchSnapshot,
): Promise<void> {
  const view = await viewCancelled(store, batch, false, clock.wallMs());
  for (const line of renderCancelled(view, batch, out)) out.line(line);
}

/** A cancel that nobody has acknowledged is under way; only its wait is over. */
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
    cli.err.line(`no longer waiting: the cancel of ${what} stands, and ends when workers let go`);
    return decideSignalExitCode(stop.received);
  }
  cli.err.line(
    `not acknowledged within ${formatDuration(timeoutMs)}: the cancel of ${what} stands, and ends when workers let go`,
  );
  cli.err.line(
    `${cli.err.colours.cyan("hint:")} sluice status <batch> shows it; --timeout waits longer.`,
  );
  return EXIT.failed;
}
