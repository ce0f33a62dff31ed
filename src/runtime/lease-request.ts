/** What a step's executor asks for when it leases, or is offered a batch of one chunk. */
import type { LeasedChunk, LeaseRequest } from "../ports/working.ts";
import type { ExecutorParts } from "./executor-parts.ts";
import type { InlineWork } from "./slicer.ts";

export type LeaseAmounts = Pick<LeaseRequest, "itemsMax" | "chunksMax" | "slots">;

export function describeLease(
  { worker, pipeline, step, batch, settings }: ExecutorParts,
  amounts: LeaseAmounts,
): LeaseRequest {
  return {
    worker,
    pipeline: pipeline.name,
    versions: [pipeline.version, ...pipeline.accepts],
    step: step.number,
    batch,
    leaseMs: settings.leaseMs,
    keeps: [],
    ...amounts,
  };
}

/** A lease for the one chunk of a batch, which comes with the permits that it needs. */
export function offerInline(
  parts: ExecutorParts,
  slots: number,
  take: (chunk: LeasedChunk, leaseUntil: number) => void,
): InlineWork {
  const { settings, clock, permits, pipeline } = parts;
  const leaseUntil = clock.monotonicMs() + settings.leaseMs;
  return {
    lease: describeLease(parts, { itemsMax: 1, chunksMax: 1, slots }),
    accept: (chunk, permitted) => {
      permits.add(permitted, pipeline.name, leaseUntil);
      take(chunk, leaseUntil);
    },
  };
}
