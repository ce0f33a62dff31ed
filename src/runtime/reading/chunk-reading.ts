/**
 * Reads the items of leased chunks of one batch, and claims their contents where none may repeat.
 */
import { SluiceError } from "../../core/base/errors.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { SliceItems } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { claimContents } from "./content-claims.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import type { ReaderPool } from "./reader-pool.ts";
import { nameScopes } from "../limits/slot-permits.ts";
import type { Step } from "../pipeline/step.ts";
import { readParent, Trace } from "../observing/tracing.ts";

export interface ChunkReadingParts {
  readonly store: Store;
  readonly step: Step;
  readonly readers: ReaderPool;
  readonly health?: WorkerHealth | undefined;
}

/** `failed`: the source cannot read them. */
export type ReadResult =
  | { readonly kind: "read" }
  | { readonly kind: "failed"; readonly error: unknown };

/** A span within the trace of its batch's submitter. */
function traceChunk(batch: BatchSnapshot, step: Step, { lease }: ChunkRun): Trace | null {
  return Trace.start(
    "sluice.chunk",
    {
      "sluice.pipeline": batch.pipeline,
      "sluice.batch": batch.id,
      "sluice.step": step.name,
      "sluice.chunk": lease.chunk,
      "sluice.items": lease.end - lease.start,
      "sluice.fence": lease.fence,
    },
    { parent: readParent(batch.settings.traceparent) },
  );
}

export async function readChunks(
  id: string,
  runs: readonly ChunkRun[],
  { store, step, readers, health }: ChunkReadingParts,
): Promise<ReadResult> {
  const batch = readers.find(id)?.batch ?? (await store.getBatch(id));
  if (batch === null)
    throw new SluiceError("NOT_FOUND", `batch ${id} no longer exists`, { kind: "batch" });
  for (const run of runs) run.trace = traceChunk(batch, step, run);
  let contents: readonly SliceItems[];
  try {
    const read = (): Promise<readonly SliceItems[]> =>
      readers.open(batch).read(runs.map(({ lease }) => lease));
    contents = await (health === undefined ? read() : health.during(read));
  } catch (error) {
    return { kind: "failed", error };
  }
  const scopes = nameScopes(id, batch.lane, batch.pipeline);
  const hasSql = store.dialect !== undefined;
  for (const [at, run] of runs.entries()) {
    run.receive(batch.lane, contents[at] as SliceItems, { scopes, hasSql });
    run.pace = batch.settings.steps[step.number]?.pace ?? null;
    if (step.dedupe !== null) await claimContents(run, step, store);
  }
  return { kind: "read" };
}
