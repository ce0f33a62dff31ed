/** What an executor asks the store for when it takes chunks. */
import type { LeaseRequest } from "../ports/working.ts";
import type { ChunkRun } from "./chunk-run.ts";
import type { ExecutorParts } from "./executor-parts.ts";

export function describeLease(
  { worker, pipeline, step, batch, settings, permits }: ExecutorParts,
  held: readonly ChunkRun[],
  slots: number,
  size: Pick<LeaseRequest, "itemsMax" | "chunksMax">,
): LeaseRequest {
  return {
    worker,
    pipeline: pipeline.name,
    versions: [pipeline.version, ...pipeline.accepts],
    step: step.number,
    batch,
    ...size,
    leaseMs: settings.leaseMs,
    slots,
    keeps: permits.listKeeps(pipeline.name, held, slots),
  };
}
