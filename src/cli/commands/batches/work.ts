/** `sluice work`: a worker on the shared store, for the pipelines that it has loaded. */
import type { Command } from "commander";
import { BATCH_STATES, type BatchState, isEnded } from "../../../core/batch/batch.ts";
import { sleep } from "../../../ports/clock.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { Engine } from "../../../runtime/engine/engine.ts";
import { WorkerHealth } from "../../../runtime/health/worker-health.ts";
import type { Log } from "../../../runtime/system/log.ts";
import { listPages } from "../../../runtime/engine/pages.ts";
import { canWorkOn, type Pipeline } from "../../../runtime/pipeline/pipeline.ts";
import { LoopBackoff } from "../../../runtime/system/loop-backoff.ts";
import { systemRandom } from "../../../runtime/system/system-random.ts";
import { resolveSettings } from "../../../runtime/system/settings.ts";
import { ChangeSignal } from "../../../runtime/system/change-signal.ts";
import {
  adjustPipeline,
  addConcurrencyFlag,
  type BatchFlags,
  listNumberFlags,
} from "../../flags/batch-flags.ts";
import { describeHold } from "../../../views/hold.ts";
import { paintState } from "../../render/batch-words.ts";
import { computeElapsedMs, viewBatch } from "../../../views/batch.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { type Config, loadConfig, readNumber } from "../../config/config.ts";
import { EndedBatches } from "../../session/ended-batches.ts";
import { decideSignalExitCode, EXIT } from "../../output/exit-codes.ts";
import { markFatal } from "../../process/fatal-failure.ts";
import { DEFAULT_HEALTH_PORT } from "../../config/health-config.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { countNoun, formatCount } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { loadPipelines } from "../../config/load-pipeline.ts";
import { finishNotifying, subscribeNotified } from "../../session/notifying.ts";
import { openEngine } from "../../session/open-engine.ts";
import { openDisplay } from "../../session/open-display.ts";
import { onParentGone } from "../../process/parent-watch.ts";
import type { ProgressDisplay } from "../../render/progress-display.ts";
import { showStore } from "../../output/show-path.ts";
import { StopRequest } from "../../process/stop-request.ts";
import { closeEngine } from "../../session/submit-batch.ts";
import {
  isOneOfSeveral,
  isSupervised,
  onSupervisorGone,
  notifySupervisor,
} from "../../process/supervised.ts";
import { Supervisor } from "../../process/supervisor.ts";
import { startProbeServer } from "../../process/work-probes.ts";

interface WorkFlags extends BatchFlags {
  readonly untilIdle?: boolean;
  readonly processes?: string;
  readonly healthPort?: string;
}

/** More than any machine has cores to run. */
const PROCESSES_MAX = 1_024;

/** Shortest time between two reads, however busy the store is. */
const LOOK_AT_MOST_EVERY_MS = 50;
const UNFINISHED: readonly BatchState[] = BATCH_STATES.filter((state) => !isEnded(state));
/** Unfinished batches that are searched for one that this worker accepts. */
const UNFINISHED_MAX = 10_000;

export function addWorkCommand(program: Command, cli: Cli): void {
  const command = program
    .command("work")
    .summary("run batches of these pipelines until stopped")
    .description(
      "Run the batches of the pipelines in these files from the shared store, until stopped. The first " +
        "Ctrl-C or SIGTERM finishes running items, the second stops at once. Any number of workers can " +
        "share a store.",
    )
    .argument("<pipeline.ts...>", "files that export a pipeline by default")
    .option("--until-idle", "exit when no batch of these pipelines is unfinished (for cron)")
    .option("--processes <n>", "number of worker processes, restarted when they die")
    .option(
      "--health-port <port>",
      `port of /health, /ready, /metrics and /scaling (default: ${DEFAULT_HEALTH_PORT})`,
    );
  addConcurrencyFlag(command).action(async (files: string[]) => {
    const flags = command.optsWithGlobals<WorkFlags>();
    const isOne = flags.processes === undefined || isOneOfSeveral(cli.env);
    cli.finish(await (isOne ? work(cli, files, flags) : supervise(cli, flags)));
  });
  addExamples(command, [
    ["sluice work import.ts", "until a signal"],
    ["sluice work import.ts export.ts --until-idle", "until all batches have ended"],
    ["sluice work import.ts --processes 4", "four processes"],
  ]);
}

/** All problems of the settings are reported once, before processes start. */
async function supervise(cli: Cli, flags: WorkFlags): Promise<number> {
  const display = openDisplay(cli, await loadWorkConfig(cli, flags));
  const processes = readNumber(flags.processes) ?? 1;
  return new Supervisor(cli, display, { processes, untilIdle: flags.untilIdle === true }).run();
}

function loadWorkConfig(cli: Cli, flags: WorkFlags): Promise<Config> {
  const processes = { name: "--processes", given: flags.processes, max: PROCESSES_MAX };
  return loadConfig(flags, cli.env, [...listNumberFlags(flags), processes]);
}

async function work(cli: Cli, files: readonly string[], flags: WorkFlags): Promise<number> {
  const supervised = isSupervised(cli.env);
  /** Null while it is being loaded, when there is nothing to finish. */
  let heeded: StopRequest | null = null;
  if (supervised) {
    onSupervisorGone(() => {
      if (heeded === null) cli.exitNow(decideSignalExitCode("SIGTERM"));
      else heeded.request("SIGTERM");
    });
  }
  const config = await loadWorkConfig(cli, flags);
  const loaded = await loadPipelines(files);
  const pipelines = loaded.map((pipeline) => adjustPipeline(pipeline, flags));
  const display = openDisplay(cli, config);
  // The supervisor decides: a repeated signal was meant for it.
  const stop = new StopRequest(cli.clock, supervised ? () => undefined : cli.exitNow);
  heeded = stop;
  onParentGone(cli.env, cli.clock, () => stop.request("SIGTERM"));
  const parts = {
    config,
    pipelines,
    display,
    stop,
    printEnding: makeEndingPrinter(cli, supervised),
  };
  try {
    await workUntilStopped(cli, parts, flags);
    return EXIT.ok;
  } finally {
    stop.release();
  }
}

interface WorkParts {
  readonly config: Config;
  readonly pipelines: readonly Pipeline[];
  readonly display: ProgressDisplay;
  readonly stop: StopRequest;
  readonly printEnding: PrintEnding;
}

/** Prints the line of an ended batch, or sends it to the supervisor to print. */
type PrintEnding = (position: number, line: string) => void;

function makeEndingPrinter({ out }: Cli, supervised: boolean): PrintEnding {
  return supervised
    ? (position, line) => notifySupervisor({ kind: "ended", position, line })
    : (_position, line) => out.line(line);
}

async function workUntilStopped(cli: Cli, parts: WorkParts, flags: WorkFlags): Promise<void> {
  const { config, display } = parts;
  const { clock, env, logFormat } = cli;
  const health = new WorkerHealth(clock);
  // Pages can be requested from the start; those that need an engine wait for it.
  const opened = Promise.withResolvers<Engine>();
  const pages = listPages({
    metrics: async () => (await opened.promise).metrics(),
    scaling: async (options) => (await opened.promise).scaling(options),
  });
  const probeServer = await startProbeServer({
    config,
    health,
    clock,
    display,
    env,
    logFormat,
    pages,
  });
  try {
    const watched = { ...parts, health, onOpened: opened.resolve };
    await markFatal(() => workWatched(cli, watched, flags));
  } finally {
    await probeServer.close();
  }
}

interface WatchedParts extends WorkParts {
  /** Shared state that another thread reads to judge the worker's health. */
  readonly health: WorkerHealth;
  readonly onOpened: (engine: Engine) => void;
}

async function workWatched(cli: Cli, parts: WatchedParts, flags: WorkFlags): Promise<void> {
  const { config, pipelines, display, stop, health } = parts;
  const log: Log = (entry) => display.log(entry);
  const engine = await openEngine({ config, clock: cli.clock, log, health });
  parts.onOpened(engine);
  try {
    subscribeNotified(engine, config);
    for (const pipeline of pipelines) engine.work(pipeline);
    const names = pipelines.map(({ name }) => name).join(", ");
    display.note(`working on ${names} from ${showStore(config.store)}`);
    const { pollMs } = resolveSettings(config.engine, engine.store.looks);
    await watchOver(cli, { ...parts, engine, pollMs }, flags);
    if (stop.received !== null) {
      const again = isSupervised(cli.env) ? "" : ". Press Ctrl-C again to force";
      display.note(`${stop.received}: finishing running items${again}`);
    }
    await finishNotifying({ engine, config, display, stop });
  } finally {
    await closeEngine(engine);
  }
}

interface WatchParts extends WorkParts {
  readonly engine: Engine;
  /** How often the store is polled without a notification. */
  readonly pollMs: number;
}

/** Logs batches as they end, until a signal, a failure or, with --until-idle, until nothing is left. */
async function watchOver(cli: Cli, parts: WatchParts, flags: WorkFlags): Promise<void> {
  const { engine, stop, display } = parts;
  const { store } = engine;
  const { clock } = cli;
  let failure: { readonly error: unknown } | null = null;
  const changed = new ChangeSignal(clock);
  const over = new AbortController();
  const end = (): void => {
    over.abort();
    changed.notify();
  };
  const unlisten = [
    store.watch(() => changed.notify()),
    engine.onFailure((error) => {
      failure = { error };
      end();
    }),
  ];
  stop.signal.addEventListener("abort", end);
  const log: Log = (entry) => display.log(entry);
  const loopBackoff = new LoopBackoff({ event: "store.retry" }, { random: systemRandom, log });
  const readFailure = (): { readonly error: unknown } | null => failure;
  const look = await makeLook(cli, parts, flags);
  try {
    while (!stop.signal.aborted) {
      const failed = readFailure();
      if (failed !== null) throw failed.error;
      let waitMs: number | null = 0;
      try {
        if (await look()) return;
        loopBackoff.clear();
      } catch (error) {
        // The engine waits during a store outage, and so does this loop.
        waitMs = loopBackoff.note(error);
        if (waitMs === null) throw error;
      }
      await sleep(clock, LOOK_AT_MOST_EVERY_MS + waitMs, over.signal);
      await changed.wait(parts.pollMs);
    }
  } finally {
    for (const stopListening of unlisten) stopListening();
  }
}

/** Reports batches that have ended; true when there is nothing left to wait for. */
async function makeLook(
  cli: Cli,
  { engine: { store }, pipelines, display, printEnding }: WatchParts,
  flags: WorkFlags,
): Promise<() => Promise<boolean>> {
  const ended = await EndedBatches.startNow(store);
  let lastNote = "";
  return async () => {
    // Read before the endings: a batch that ends in between is reported, and not waited for.
    const left = flags.untilIdle === true ? await findUnfinished(store, pipelines) : null;
    for (const { batch, position } of await ended.read()) {
      if (!pipelines.some((pipeline) => canWorkOn(pipeline, batch))) continue;
      printEnding(position, describeEnded(cli, batch, flags));
    }
    if (flags.untilIdle !== true) return false;
    if (left === null) return true;
    const note = describeStopped(left);
    if (note !== null && note !== lastNote) display.note(makeInert(note));
    lastNote = note ?? lastNote;
    return false;
  };
}

/** A batch that this worker can finish, including one that waits for its turn. */
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

/** What a person must do before the batch continues; null if it is neither paused nor parked. */
function describeStopped(batch: BatchSnapshot): string | null {
  if (batch.pause === null && batch.parked === null) return null;
  const hold = describeHold(batch, null);
  return hold === null ? null : `batch ${batch.id} is ${hold}; \`sluice resume\` continues it`;
}

function describeEnded({ out, clock }: Cli, batch: BatchSnapshot, { json }: WorkFlags): string {
  if (json === true) return formatJson(viewBatch(batch, clock.wallMs()));
  const { counts } = batch;
  const failed = counts.failed > 0 ? `, ${formatCount(counts.failed)} failed` : "";
  const took = formatDuration(computeElapsedMs(batch, clock.wallMs()));
  const reason = batch.reason === null ? "" : `: ${makeInert(batch.reason.code)}`;
  return `${batch.id}  ${makeInert(batch.pipeline)}  ${paintState(batch.state, out)(batch.state)}${reason}  ${countNoun(counts.planned, "item")}${failed}, ${took}`;
}
