/** `sluice watch`: live progress of a batch that others work on, until it ends. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { countDone } from "../../../core/batch/progress.ts";
import type { BatchSnapshot } from "../../../ports/store/conducting.ts";
import { describeHold } from "../../../views/hold.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { decideSignalExitCode } from "../../output/exit-codes.ts";
import { followBatch } from "../../session/follow-batch.ts";
import { reportEnding } from "../../session/report-ending.ts";
import { StopRequest } from "../../process/stop-request.ts";
import { withBatch } from "../../session/with-store.ts";

/** After this long without progress it is worth asking whether anybody works on it. */
const QUIET_MS = 30_000;

export function addWatchCommand(program: Command, cli: Cli): void {
  const command = program
    .command("watch")
    .summary("follow a batch until it ends")
    .description("Shows the live progress of a batch that others work on. Ends with it, and as it.")
    .argument("<batch>", "a batch's id, or its first characters")
    .action(async (id: string) => {
      cli.finish(await watch(cli, id, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice watch b-k3x", "a progress bar"],
    ["sluice watch b-k3x --json | tail -1", "its result, once it has ended"],
  ]);
}

function watch(cli: Cli, id: string, flags: CommonFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (found, { store, config, display }) => {
    const stop = new StopRequest(cli.clock, cli.exitNow);
    const noteQuiet = askForWorkers(cli, (text) => display.note(text));
    const parts = { store, clock: cli.clock, display };
    const batch = (await followBatch(found.id, parts, stop.signal, noteQuiet)) ?? found;
    display.clear();
    stop.release();
    if (!isEnded(batch.state)) return decideSignalExitCode(stop.received ?? "SIGINT");
    const json = flags.json === true;
    return reportEnding(cli, batch, { store, json, storeFlag: config.storeFlag });
  });
}

/** Says once that nothing moves. */
function askForWorkers(cli: Cli, note: (text: string) => void): (batch: BatchSnapshot) => void {
  let last = { done: -1, at: 0 };
  let isAsked = false;
  return (batch) => {
    const { counts } = batch;
    const now = cli.clock.monotonicMs();
    const done = countDone(counts) + counts.planned;
    // What it waits for is shown: nobody has to ask.
    const isHeld = describeHold(batch, null) !== null;
    if (done !== last.done || isHeld) last = { done, at: now };
    else if (!isAsked && now - last.at >= QUIET_MS) {
      isAsked = true;
      note("no progress for 30 s: does a worker run? `sluice work <pipeline.ts>` starts one");
    }
  };
}
