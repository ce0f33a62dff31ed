/** Submits the batch that a command line describes, or resumes the matching one. */
import { invariant } from "../../core/base/invariant.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { BatchHandle } from "../../runtime/engine/batch-handle.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { Log } from "../../runtime/system/log.ts";
import {
  adjustPipeline,
  type BatchFlags,
  listNumberFlags,
  readInput,
  readSubmitOptions,
} from "../flags/batch-flags.ts";
import { countRun } from "../../views/batch.ts";
import type { Cli } from "../output/cli.ts";
import { type Config, loadConfig } from "../config/config.ts";
import { formatCount } from "../output/format-number.ts";
import { loadPipeline } from "../config/load-pipeline.ts";
import { openEngine } from "./open-engine.ts";
import { openDisplay } from "./open-display.ts";
import type { ProgressDisplay } from "../render/progress-display.ts";

export interface SubmittedBatch {
  readonly engine: Engine;
  readonly handle: BatchHandle;
  readonly config: Config;
  readonly display: ProgressDisplay;
  /** The batch as it was just after the submit. */
  readonly batch: BatchSnapshot;
}

export interface SubmitBatchOptions {
  /** Also work on the batch here. */
  readonly works: boolean;
}

/** All problems of the command line are reported before the store is opened. */
export async function submitBatch(
  cli: Cli,
  file: string,
  flags: BatchFlags,
  { works }: SubmitBatchOptions,
): Promise<SubmittedBatch> {
  const config = await loadConfig(flags, cli.env, listNumberFlags(flags));
  const pipeline = adjustPipeline(await loadPipeline(file), flags);
  const input = readInput(pipeline, flags);
  const options = readSubmitOptions(flags, cli.clock.wallMs());
  const display = openDisplay(cli, config);
  const log: Log = (entry) => display.log(entry);
  const parts = { config, clock: cli.clock, log };
  const engine = await openEngine(works ? { ...parts, work: "submitted" } : parts);
  try {
    const handle = await engine.submit(pipeline, input, options);
    const batch = handle.takenUp ?? (await engine.store.getBatch(handle.id));
    invariant(batch !== null, "a batch that was just submitted exists");
    if (handle.takenUp !== null && flags.deadline !== undefined) {
      display.note(`--deadline is ignored: ${describeDeadline(batch)}`);
    }
    return { engine, handle, config, display, batch };
  } catch (error) {
    await closeEngine(engine);
    throw error;
  }
}

/** Never throws: chunks that could not be given back are taken over when this process is gone. */
export async function closeEngine(engine: Engine): Promise<void> {
  await engine.close().catch(() => undefined);
  await engine.store.close();
}

/** "resuming batch b-..., 412,000 of 1,000,000 done" */
export function describeTakenUp({ id, state, active, counts }: BatchSnapshot): string {
  if (!active) return `resuming batch ${id}, which waits for its turn`;
  if (state !== "running") return `resuming batch ${id}, which was not completely sliced`;
  const done = formatCount(countRun(counts));
  return `resuming batch ${id}, ${done} of ${formatCount(counts.planned)} done`;
}

function describeDeadline({ id, deadlineAt }: BatchSnapshot): string {
  const own = deadlineAt === null ? "no deadline" : `the deadline ${formatInstant(deadlineAt)}`;
  return `batch ${id} existed before, with ${own}`;
}
