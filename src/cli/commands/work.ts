/** `sluice work`: a worker on the shared store, for the pipelines that it has loaded. */
import type { Command } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../core/batch.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import type { Store } from "../../ports/store.ts";
import type { Engine } from "../../runtime/engine.ts";
import { canWorkOn, type Pipeline } from "../../runtime/pipeline.ts";
import { Wake } from "../../runtime/wake.ts";
import {
  adjustPipeline,
  addConcurrencyFlag,
  type BatchFlags,
  listNumberFlags,
} from "../batch-flags.ts";
import { describeHold } from "../batch-hold.ts";
import { paintState } from "../batch-summary.ts";
import { computeElapsedMs, viewBatch } from "../batch-view.ts";
import type { Cli } from "../cli.ts";
import { addExamples } from "../command-help.ts";
import { loadConfig } from "../config.ts";
import { EndedBatches } from "../ended-batches.ts";
import { EXIT } from "../exit-codes.ts";
import { formatDuration } from "../format-duration.ts";
import { countNoun, formatCount } from "../format-number.ts";
import { formatJson, makeInert } from "../inert-text.ts";
import { loadPipelines } from "../load-pipeline.ts";
import { finishNotifying, subscribeNotified } from "../notifying.ts";
import { openEngine } from "../open-engine.ts";
import { openDisplay } from "../open-display.ts";
import type { ProgressDisplay } from "../progress-display.ts";
import { showStore } from "../show-path.ts";
import { StopRequest } from "../stop-request.ts";
import { closeEngine } from "../submit-batch.ts";

interface WorkFlags extends BatchFlags {
  readonly untilIdle?: boolean;
}

const POLL_MS = 1_000;
/** However busy the store is, it is looked at no more often than this. */
const LOOK_AT_MOST_EVERY_MS = 50;
const UNFINISHED: readonly BatchState[] = BATCH_STATES.filter((state) => !isEnded(state));
/** Unfinished batches that are looked through for one that this worker accepts. */
const UNFINISHED_MAX = 10_000;

export function addWorkCommand(program: Command, cli: Cli): void {
  const command = program
    .command("work")
    .summary("work on batches of these pipelines, from the shared store")
    .description(
      "Works on the batches of the pipelines in these files, whoever submitted them, until it is told to " +
        "stop: the first Ctrl-C or SIGTERM finishes what is in hand, the second stops at once. Any number " +
        "of workers may share a store on one host.",
    )
    .argument("<pipeline.ts...>", "files that export a pipeline by default")
    .option("--until-idle", "stop when no batch of these pipelines is unfinished (for cron)");
  addConcurrencyFlag(command).action(async (files: string[]) => {
    cli.finish(await work(cli, files, command.optsWithGlobals<WorkFlags>()));
  });
  addExamples(command, [
    ["sluice work import.ts", "until a signal comes"],
    ["sluice work import.ts export.ts --until-idle", "until nothing is left to do"],
  ]);
}

async function work(cli: Cli, files: readonly string[], flags: WorkFlags): Promise<number> {
  const config = await loadConfig(flags, cli.env, listNumberFlags(flags));
  const loaded = await loadPipelines(files);
  const pipelines = loaded.map((pipeline) => adjustPipeline(pipeline, flags));
  const display = openDisplay(cli, config);
  const engine = await openEngine({ config, clock: cli.clock, log: (entry) => display.log(entry) });
  const stop = new StopRequest(cli.clock, cli.exitNow);
  try {
    subscribeNotified(engine, config);
    for (const pipeline of pipelines) engine.work(pipeline);
    const names = pipelines.map(({ name }) => name).join(", ");
    display.note(`working on ${names} from ${showStore(config.store)}`);
    await watchOver(cli, { engine, pipelines, stop, display }, flags);
    if (stop.received !== null) {
      display.note(`${stop.received}: finishing what is in hand; once more stops at once`);
    }
    await finishNotifying({ engine, config, display, stop });
    return EXIT.ok;
  } finally {
    await closeEngine(engine);
    stop.release();
  }
}

interface WatchParts {
  readonly engine: Engine;
  readonly pipelines: readonly Pipeline[];
  readonly stop: StopRequest;
  readonly display: ProgressDisplay;
}

/** Logs batches as they end, until a signal, a failure or, with --until-idle, until nothing is left. */
async function watchOver(
  cli: Cli,
  { engine, pipelines, stop, display }: WatchParts,
  flags: WorkFlags,
): Promise<void> {
  const { store } = engine;
  const { clock } = cli;
  let failure: { readonly error: unknown } | null = null;
  const wake = new Wake(clock);
  const unlisten = [
    store.watch(() => wake.notify()),
    engine.onFailure((error) => {
      failure = { error };
      wake.notify();
    }),
  ];
  stop.signal.addEventListener("abort", () => wake.notify());
  const readFailure = (): { readonly error: unknown } | null => failure;
  const ended = await EndedBatches.fromNowOn(store);
  let lastNote = "";
  try {
    while (!stop.signal.aborted) {
      const failed = readFailure();
      if (failed !== null) throw failed.error;
      const left = await findUnfinished(store, pipelines);
      for (const batch of await ended.read()) {
        if (pipelines.some((pipeline) => canWorkOn(pipeline, batch))) logEnded(cli, batch, flags);
      }
      if (flags.untilIdle === true) {
        if (left === null) return;
        const note = describeStopped(left);
        if (note !== null && note !== lastNote) display.note(makeInert(note));
        lastNote = note ?? lastNote;
      }
      await pause(wake, clock);
    }
  } finally {
    for (const stopListening of unlisten) stopListening();
  }
}

async function pause(wake: Wake, clock: Clock): Promise<void> {
  await new Promise<void>((resolve) => {
    clock.after(LOOK_AT_MOST_EVERY_MS, resolve);
  });
  await wake.wait(POLL_MS);
}

/** A batch that this worker can finish: one that waits for its turn is unfinished, too. */
async function findUnfinished(
  store: Store,
  pipelines: readonly Pipeline[],
): Promise<BatchSnapshot | null> {
  for (const pipeline of pipelines) {
    // The newest one answers most of the time, and a backlog is long.
    for (const limit of [1, UNFINISHED_MAX]) {
      const filter = { pipeline: pipeline.name, states: UNFINISHED, limit };
      const batches = await store.listBatches(filter);
      const found = batches.find((batch) => canWorkOn(pipeline, batch));
      if (found !== undefined) return found;
    }
  }
  return null;
}

/** What a worker that waits for the end of all batches waits for, where only a person can help. */
function describeStopped(batch: BatchSnapshot): string | null {
  if (batch.pause === null && batch.parked === null) return null;
  const hold = describeHold(batch, null);
  return hold === null ? null : `batch ${batch.id} is ${hold}; \`sluice resume\` goes on with it`;
}

function logEnded(cli: Cli, batch: BatchSnapshot, { json }: WorkFlags): void {
  const { out, clock } = cli;
  if (json === true) {
    out.line(formatJson(viewBatch(batch, clock.wallMs())));
    return;
  }
  const { counts } = batch;
  const failed = counts.failed > 0 ? `, ${formatCount(counts.failed)} failed` : "";
  const took = formatDuration(computeElapsedMs(batch, clock.wallMs()));
  const reason = batch.reason === null ? "" : `: ${makeInert(batch.reason.code)}`;
  out.line(
    `${batch.id}  ${makeInert(batch.pipeline)}  ${paintState(batch.state, out)}${reason}  ${countNoun(counts.planned, "item")}${failed}, ${took}`,
  );
}
