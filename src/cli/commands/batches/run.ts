/**
 * `sluice run`: submits a batch, or resumes the unfinished one, and works only on that one here.
 */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { addBatchFlags, addConcurrencyFlag, type BatchFlags } from "../../flags/batch-flags.ts";
import { formatJson } from "../../output/inert-text.ts";
import { viewBatch, countRun } from "../../../views/batch.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { decideSignalExitCode } from "../../output/exit-codes.ts";
import { markFatal } from "../../process/fatal-failure.ts";
import { followBatch } from "../../session/follow-batch.ts";
import { formatDuration } from "../../output/format-duration.ts";
import { formatCount } from "../../output/format-number.ts";
import { finishNotifying, subscribeNotified } from "../../session/notifying.ts";
import { retryWhileStoreDown } from "../../process/retry-while-store-down.ts";
import { reportEnding } from "../../session/report-ending.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { StopRequest } from "../../process/stop-request.ts";
import {
  closeEngine,
  describeTakenUp,
  submitBatch,
  type SubmittedBatch,
} from "../../session/submit-batch.ts";
import type { LogEntry } from "../../../runtime/system/log.ts";
import { DEFAULT_SETTINGS } from "../../../runtime/system/settings.ts";

export function addRunCommand(program: Command, cli: Cli): void {
  const command = program
    .command("run")
    .summary("run a batch in this process, or resume an unfinished one")
    .description(
      "Submit a batch and work on it in this process until it ends. The same command again resumes the " +
        "unfinished batch of the same pipeline and input. With --key, an ended batch is reported again " +
        "and nothing runs.",
    )
    .argument("<pipeline.ts>", "file that exports a pipeline by default");
  addConcurrencyFlag(addBatchFlags(command)).action(async (file: string) => {
    cli.finish(await run(cli, file, command.optsWithGlobals<BatchFlags>()));
  });
  addExamples(command, [
    ["sluice run import.ts --input contacts.jsonl", "run it with a progress bar"],
    ["sluice run import.ts --input contacts.jsonl --strict", "refuse it if one line is bad"],
    ["sluice run import.ts --input a.jsonl --key june --json", "run once, result as JSON"],
  ]);
}

async function run(cli: Cli, file: string, flags: BatchFlags): Promise<number> {
  const submitted = await submitBatch(cli, file, flags, { works: true });
  // Not earlier: a file that hangs while it is loaded can be stopped like any program.
  const stop = new StopRequest(cli.clock, cli.exitNow);
  const { engine, config, batch, display } = submitted;
  const { store } = engine;
  const json = flags.json === true;
  try {
    subscribeNotified(engine, config);
    if (isEnded(batch.state)) {
      display.note(`batch ${batch.id} has already ended: nothing runs, this is its result`);
      const exitCode = await reportEnding(cli, batch, { store, json, storeFlag: config.storeFlag });
      await finishNotifying({ engine, config, display, stop });
      return exitCode;
    }
    if (submitted.handle.takenUp !== null) display.note(describeTakenUp(batch));
    else display.note(cli.err.colours.dim(`batch ${batch.id}`));
    const startedAt = cli.clock.monotonicMs();
    const ended = await markFatal(() => workUntilEnded(cli, submitted, stop));
    if (ended === null) return await leaveUnfinished(cli, submitted, stop, json);
    const tookMs = Math.max(1, cli.clock.monotonicMs() - startedAt);
    const itemsPerSecond = ((countRun(ended.counts) - countRun(batch.counts)) * 1_000) / tookMs;
    const exitCode = await reportEnding(cli, ended, {
      store,
      json,
      storeFlag: config.storeFlag,
      itemsPerSecond,
    });
    await finishNotifying({ engine, config, display, stop });
    return exitCode;
  } finally {
    display.clear();
    await closeEngine(engine);
    stop.release();
  }
}

/** The ended batch, or null when a signal came first. */
async function workUntilEnded(
  cli: Cli,
  { engine, handle, display }: SubmittedBatch,
  stop: StopRequest,
): Promise<BatchSnapshot | null> {
  const { store } = engine;
  const watching = new AbortController();
  const { clock } = cli;
  const { signal } = watching;
  const patient = { clock, signal, log: (entry: LogEntry) => display.log(entry) };
  const look = (): Promise<unknown> => followBatch(handle.id, { store, clock, display }, signal);
  // The engine reports a lasting error itself; the progress bar need not.
  const follow = retryWhileStoreDown(look, { ...patient, log: () => undefined }).catch(() => null);
  try {
    const ended = retryWhileStoreDown(() => handle.wait(), patient).then(() => true);
    const stopped = stop.wait().then(() => false);
    const isEnd = await Promise.race([ended, stopped]);
    // The promise that lost the race may reject later, when the engine is closed.
    ended.catch(() => undefined);
    return isEnd ? await retryWhileStoreDown(() => store.getBatch(handle.id), patient) : null;
  } finally {
    watching.abort();
    await follow;
    display.clear();
  }
}

/** Stops the worker, not the batch. */
async function leaveUnfinished(
  cli: Cli,
  { engine, config, display, batch }: SubmittedBatch,
  stop: StopRequest,
  json: boolean,
): Promise<number> {
  const drainMs = config.engine.drainMs ?? DEFAULT_SETTINGS.drainMs;
  display.note(
    `stopping: finishing running items (up to ${formatDuration(drainMs)}). Press Ctrl-C again to force`,
  );
  // During a store outage nothing can be given back or read: it is stopped anyway.
  await engine.close().catch(() => undefined);
  const left = (await engine.store.getBatch(batch.id).catch(() => null)) ?? batch;
  const { counts } = left;
  display.note(
    `stopped: batch ${left.id} is kept, ${formatCount(countRun(counts))} of ${formatCount(counts.planned)} done`,
  );
  display.note(`${cli.err.colours.cyan("hint:")} To resume it, run the same command:`);
  display.note(`  ${quoteCommand(["sluice", ...cli.argv])}`);
  display.note(`${cli.err.colours.cyan("hint:")} To cancel it:`);
  display.note(`  ${quoteCommand(["sluice", "cancel", left.id, ...config.storeFlag])}`);
  if (json) cli.out.line(formatJson(viewBatch(left, cli.clock.wallMs())));
  return decideSignalExitCode(stop.received ?? "SIGINT");
}
