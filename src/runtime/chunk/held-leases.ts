/** Finds which of a worker's held chunks lost their leases. */
import { type LeaseRef, nameLease } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "./chunk-run.ts";
import type { Log } from "../system/log.ts";
import type { StepMeter } from "../observing/meter.ts";

export interface LossParts {
  readonly meter: StepMeter;
  readonly log: Log;
}

/** The runs whose leases are among the lost ones. Each is logged and counted once. */
export function findLost(
  held: readonly ChunkRun[],
  lost: readonly LeaseRef[],
  { meter, log }: LossParts,
): ChunkRun[] {
  if (lost.length === 0) return [];
  const gone = new Set(lost.map(nameLease));
  const found = held.filter((run) => gone.has(nameLease(run.lease)));
  for (const run of found) {
    // A run that is being reported may have settled already: the answer to its report decides.
    if (run.lost || run.reporting !== null) continue;
    const { batch, chunk } = run.lease;
    meter.leasesLost++;
    const message = `the lease on chunk ${chunk} of batch ${batch} was lost`;
    log({ level: "warn", event: "chunk.lost", message, batch, chunk });
  }
  return found;
}
