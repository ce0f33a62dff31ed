/** `sluice status`: everything about one batch at this moment, or its progress until it ends. */
import type { Command } from "commander";
import { isEnded } from "../../../core/batch/batch.ts";
import { countDone } from "../../../core/batch/progress.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import { readEvent } from "../../../runtime/delivering/batch-event.ts";
import { describeHold } from "../../../views/hold.ts";
import { viewStatus } from "../../../views/status.ts";
import { describeStepTurn } from "../../../views/step.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { Cli } from "../../output/cli.ts";
import { decideSignalExitCode, EXIT } from "../../output/exit-codes.ts";
import { formatJson } from "../../output/inert-text.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { StopRequest } from "../../process/stop-request.ts";
import { describeNoWorker } from "../../render/batch-words.ts";
import { type Hint, renderHints } from "../../render/hints.ts";
import { renderStatus } from "../../render/status.ts";
import { followBatch } from "../../session/follow-batch.ts";
import { readHold } from "../../session/read-hold.ts";
import { reportEnding } from "../../session/report-ending.ts";
import { type StoreLook, withBatch } from "../../session/with-store.ts";

interface StatusFlags extends CommonFlags {
  readonly watch?: boolean;
}

/** A batch writes a handful of records about itself. */
const EVENTS_MAX = 1_000;
/** After this long without progress it is worth asking whether a worker runs. */
const QUIET_MS = 30_000;

export function addStatusCommand(program: Command, cli: Cli): void {
  const command = program
    .command("status")
    .summary("show one batch, or follow it until it ends")
    .description(
      "Show one batch: its counts, its progress, what it waits for, its events, and why it ended. With " +
        "--watch, show live progress until the batch ends, and exit with the code of its ending.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .option("--watch", "follow the batch until it ends")
    .action(async (id: string) => {
      const flags = command.optsWithGlobals<StatusFlags>();
      const show = flags.watch === true ? watch : status;
      cli.finish(
        await withBatch(cli, id, flags, [], (batch, look) => show(cli, batch, look, flags)),
      );
    });
  addExamples(command, [
    ["sluice status b-k3x", "the first characters are enough"],
    ["sluice status b-k3x --json", "one JSON object, with its events"],
    ["sluice status b-k3x --watch", "a progress bar"],
  ]);
}

async function status(
  { out, clock }: Cli,
  batch: BatchSnapshot,
  { store, config }: StoreLook,
  { json }: StatusFlags,
): Promise<number> {
  const events = (await store.readRecords(batch.id, 0, EVENTS_MAX)).map(readEvent);
  const wallMs = clock.wallMs();
  const { text: hold, facts } = await readHold(store, batch);
  const view = viewStatus(batch, events, facts, wallMs);
  if (json === true) {
    out.line(formatJson(view));
    return EXIT.ok;
  }
  const words = {
    waits: hold ?? describeNoWorker(facts),
    stepTurn: describeStepTurn(batch),
    input: batch.input,
    wallMs,
  };
  const hints = listHints(batch, config.storeFlag);
  const lines = [
    ...renderStatus(view, words, out),
    ...(hints.length === 0 ? [] : ["", ...renderHints(hints, out)]),
  ];
  for (const line of lines) out.line(line);
  return EXIT.ok;
}

function listHints({ id, counts, state }: BatchSnapshot, storeFlag: readonly string[]): Hint[] {
  const quote = (verb: string, ...flags: string[]): string =>
    quoteCommand(["sluice", verb, id, ...flags, ...storeFlag]);
  return [
    ...(isEnded(state) ? [] : [[quote("status", "--watch"), "follow it"] as const]),
    ...(counts.failed > 0 ? [[quote("dead"), "what failed, and why"] as const] : []),
  ];
}

async function watch(
  cli: Cli,
  found: BatchSnapshot,
  { store, config, display }: StoreLook,
  flags: StatusFlags,
): Promise<number> {
  const stop = new StopRequest(cli.clock, cli.exitNow);
  const noteQuiet = suggestWorker(cli, (text) => display.note(text));
  const parts = { store, clock: cli.clock, display };
  const batch = (await followBatch(found.id, parts, stop.signal, noteQuiet)) ?? found;
  display.clear();
  stop.release();
  if (!isEnded(batch.state)) return decideSignalExitCode(stop.received ?? "SIGINT");
  const json = flags.json === true;
  return reportEnding(cli, batch, { store, json, storeFlag: config.storeFlag });
}

/** Notes once that there is no progress. */
function suggestWorker(cli: Cli, note: (text: string) => void): (batch: BatchSnapshot) => void {
  let last = { done: -1, at: 0 };
  let isSuggested = false;
  return (batch) => {
    const { counts } = batch;
    const now = cli.clock.monotonicMs();
    const done = countDone(counts) + counts.planned;
    // The reason for the wait is already shown.
    const isHeld = describeHold(batch, null) !== null;
    if (done !== last.done || isHeld) last = { done, at: now };
    else if (!isSuggested && now - last.at >= QUIET_MS) {
      isSuggested = true;
      note("no progress for 30 s: is a worker running? `sluice work <pipeline.ts>` starts one");
    }
  };
}
