/** What a step's worker asks for when it leases, or when it is offered a batch of one chunk. */
import { computeItemsAhead, type Speed } from "../../core/items/lease-size.ts";
import type { LeasedChunk, LeaseRequest } from "../../ports/store/worker-store.ts";
import type { StepWorkerParts } from "./step-worker-parts.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import type { Step } from "../pipeline/step.ts";

/** Chunks held at once: with tiny chunks they use most of the memory. */
const CHUNKS_HELD_MAX = 4_000;

/** What the step's worker holds now. */
export interface LeaseNeed {
  readonly speed: Speed;
  /** Concurrent handlers. */
  readonly slots: number;
  /** Items not started yet. */
  readonly itemsAhead: number;
  readonly chunksAhead: number;
}

/** What to lease now; null while the worker holds enough. */
export function planLease(
  parts: StepWorkerParts,
  { speed, slots, itemsAhead, chunksAhead }: LeaseNeed,
): LeaseRequest | null {
  const { leaseTargetMs, leaseItemsMax } = parts.settings;
  const limits = { targetMs: leaseTargetMs, itemsMax: leaseItemsMax };
  const wanted = computeItemsAhead(speed, slots, limits);
  // Half is refilled while the other half runs; with a slow handler the next chunk waits until the
  // last one is used up.
  const isEnough = itemsAhead * 2 > wanted || chunksAhead * 2 > CHUNKS_HELD_MAX;
  if (itemsAhead > 0 && isEnough) return null;
  if (hasChunksEnough(parts.step, chunksAhead)) return null;
  const chunksMax = Math.max(1, (parts.step.cpu?.chunks ?? CHUNKS_HELD_MAX) - chunksAhead);
  return describeLease(parts, { itemsMax: wanted - itemsAhead, chunksMax, slots });
}

/**
 * A CPU-heavy step holds its chunks for long: with fewer chunks each, other workers get more of
 * them, and a crash repeats less.
 */
export function hasChunksEnough({ cpu }: Step, chunksAhead: number): boolean {
  return cpu !== null && chunksAhead >= cpu.chunks;
}

type LeaseAmounts = Pick<LeaseRequest, "itemsMax" | "chunksMax" | "slots">;

function describeLease(
  { worker, pipeline, step, batch, settings }: StepWorkerParts,
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

/** A lease for the one chunk of a batch, with the permits that it needs. */
export function offerInline(
  parts: StepWorkerParts,
  slots: number,
  take: (chunk: LeasedChunk, leaseUntil: number) => void,
): InlineWork {
  const { settings, clock, permits } = parts;
  const question = permits.ask(null);
  const leaseUntil = clock.monotonicMs() + settings.leaseMs;
  return {
    lease: describeLease(parts, { itemsMax: 1, chunksMax: 1, slots }),
    accept: (chunk, permitted) => {
      permits.grant(question, permitted);
      take(chunk, leaseUntil);
    },
  };
}
