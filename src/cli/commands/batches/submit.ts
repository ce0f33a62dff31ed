/** `sluice submit`: records a batch and slices it, for workers to run. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { addBatchFlags, type BatchFlags } from "../../flags/batch-flags.ts";
import { describeHold } from "../../../views/hold.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { nameHold, renderReason } from "../../render/batch-words.ts";
import { readHold } from "../../session/read-hold.ts";
import { viewBatch } from "../../../views/batch.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { decideExitCode, decideSignalExitCode, EXIT } from "../../output/exit-codes.ts";
import { followBatch } from "../../session/follow-batch.ts";
import { countNoun } from "../../output/format-number.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { StopRequest } from "../../process/stop-request.ts";
import {
  closeEngine,
  describeTakenUp,
  submitBatch,
  type SubmittedBatch,
} from "../../session/submit-batch.ts";

export function addSubmitCommand(program: Command, cli: Cli): void {
  const command = program
    .command("submit")
    .summary("record and slice a batch for workers to run")
    .description(
      "Record a batch and slice it, but run nothing: `sluice work` does. Prints the batch id. Resumes an " +
        "unfinished batch of the same pipeline and input.",
    )
    .argument("<pipeline.ts>", "file that exports a pipeline by default");
  addBatchFlags(command).action(async (file: string) => {
    cli.finish(await submit(cli, file, command.optsWithGlobals<BatchFlags>()));
  });
  addExamples(command, [
    ["sluice submit import.ts --input contacts.jsonl", "record it"],
    ["id=$(sluice submit import.ts --input a.jsonl)", "for scripts"],
  ]);
}

async function submit(cli: Cli, file: string, flags: BatchFlags): Promise<number> {
  const submitted = await submitBatch(cli, file, flags, { works: false });
  const stop = new StopRequest(cli.clock, cli.exitNow);
  const { engine, display } = submitted;
  try {
    if (submitted.handle.takenUp !== null && !isEnded(submitted.batch.state)) {
      display.note(describeTakenUp(submitted.batch));
    }
    const batch = await waitUntilSliced(cli, submitted, stop);
    if (batch === null) {
      display.note(`stopped: batch ${submitted.batch.id} is not completely sliced`);
      display.note(`${cli.err.colours.cyan("hint:")} Run the same command to resume it.`);
      return decideSignalExitCode(stop.received ?? "SIGINT");
    }
    return await report(cli, submitted, batch, file, flags);
  } finally {
    display.clear();
    await closeEngine(engine);
    stop.release();
  }
}

/**
 * The batch once its plan is written, it has ended, or it waits for its turn or for a resume: then a
 * worker slices it later. Null when a signal came first.
 */
async function waitUntilSliced(
  cli: Cli,
  { engine, handle, display }: SubmittedBatch,
  stop: StopRequest,
): Promise<BatchSnapshot | null> {
  const { store } = engine;
  const watching = new AbortController();
  const parts = { store, clock: cli.clock, display, printsHold: false };
  const follow = followBatch(handle.id, parts, watching.signal);
  const sliced = (async (): Promise<true> => {
    const isHeld = async (): Promise<boolean> => {
      const batch = await store.getBatch(handle.id);
      return batch !== null && describeHold(batch, null) !== null;
    };
    for await (const { type } of handle.events()) {
      if (type === "slicing.finished" || type === "batch.ended" || (await isHeld())) break;
    }
    return true;
  })();
  try {
    const isSliced = await Promise.race([sliced, stop.wait().then(() => false)]);
    sliced.catch(() => undefined);
    return isSliced ? await store.getBatch(handle.id) : null;
  } finally {
    watching.abort();
    await follow;
    display.clear();
  }
}

async function report(
  cli: Cli,
  { config, engine }: SubmittedBatch,
  batch: BatchSnapshot,
  file: string,
  flags: BatchFlags,
): Promise<number> {
  const { out, err } = cli;
  if (flags.json === true) out.line(formatJson(viewBatch(batch, cli.clock.wallMs())));
  else out.line(batch.id);
  if (isEnded(batch.state)) {
    err.line(`the batch has ended: ${batch.state}`);
    for (const line of renderReason(batch.reason, err)) err.line(line);
    return decideExitCode(batch.state);
  }
  const { counts, chunks, state } = batch;
  const isSliced = state === "running" || state === "ready";
  const plan = `sliced: ${countNoun(counts.planned, "item")} in ${countNoun(chunks, "chunk")}`;
  const { text: hold } = await readHold(engine.store, batch);
  if (hold !== null) err.line(`batch ${batch.id} ${makeInert(nameHold(hold))}`);
  err.line(`${isSliced ? plan : "recorded; a worker slices it when its turn comes"}. To run it:`);
  err.line(err.colours.cyan(`  ${quoteCommand(["sluice", "work", file, ...config.storeFlag])}`));
  return EXIT.ok;
}
