/** Selects and leases the next chunks of the reference model. */
import {
  compareTenants,
  computeCost,
  type LeaseCandidate,
  shareLease,
  type Taken,
  type TenantShare,
  TENANTS_PER_LEASE_MAX,
} from "../../core/limits/fair-share.ts";
import { countPending, getOutcome, PENDING } from "../../core/items/outcome-map.ts";
import { FIRST_LOOK } from "../../core/batch/watch.ts";
import type { LeasedChunk, LeaseRequest } from "../../ports/store/worker-store.ts";
import { keepsLedger } from "./ledger.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import type { FairShares } from "./fair-shares.ts";
import { type Batch, type Chunk, currentStep, findPause, type State, type Step } from "./state.ts";

interface Candidate extends LeaseCandidate {
  readonly tenant: string;
  share: TenantShare;
  served: boolean;
}

export class Leasing {
  readonly #state: State;
  readonly #shares: FairShares;
  readonly #permits: ConcurrencyPermits;

  constructor(state: State, shares: FairShares, permits: ConcurrencyPermits) {
    this.#state = state;
    this.#shares = shares;
    this.#permits = permits;
  }

  lease(request: LeaseRequest, now: number): LeasedChunk[] {
    const { pipeline } = request;
    const { virtual } = this.#shares.getClock(pipeline);
    const leased: LeasedChunk[] = [];
    const candidates = this.#listCandidates(request, now);
    const latest = shareLease(candidates, request, virtual, (candidate, itemsMax, chunksMax) =>
      this.#take(candidate, { ...request, itemsMax, chunksMax }, now, leased),
    );
    for (const { tenant, share, served } of candidates) {
      if (served) this.#shares.set(pipeline, tenant, share);
    }
    if (leased.length > 0) {
      this.#shares.setClock(pipeline, { ...this.#shares.getClock(pipeline), virtual: latest });
    }
    return leased;
  }

  /** Tenants with leasable work, the one furthest behind first. */
  #listCandidates(request: LeaseRequest, now: number): Candidate[] {
    const batches = this.#listRotation(request, now);
    return [...Map.groupBy(batches, ({ tenant }) => tenant)]
      .map(([tenant, [first]]) => ({
        tenant,
        share: this.#shares.get(request.pipeline, tenant),
        served: false,
        chunkItems: currentStep(first as Batch).settings.chunkSize,
      }))
      .toSorted(compareTenants)
      .slice(0, TENANTS_PER_LEASE_MAX);
  }

  /** Batches with leasable work, the least recently leased first. */
  #listRotation(request: LeaseRequest, now: number): Batch[] {
    return this.findBatches(request)
      .filter((batch) => listDue(currentStep(batch), now).length > 0)
      .filter((batch) => this.#permits.allows(batch, request.worker, now))
      .toSorted((a, b) => currentStep(a).turn - currentStep(b).turn);
  }

  #take(candidate: Candidate, request: LeaseRequest, now: number, leased: LeasedChunk[]): Taken {
    const { tenant, share } = candidate;
    const taken = { items: 0, chunks: 0, pending: 0 };
    const { itemsMax, chunksMax, pipeline } = request;
    const isFull = (): boolean => taken.items >= itemsMax || taken.chunks >= chunksMax;
    for (const batch of this.#listRotation(request, now).filter((one) => one.tenant === tenant)) {
      if (isFull()) break;
      const step = currentStep(batch);
      const clock = this.#shares.getClock(pipeline);
      step.turn = clock.turns + 1;
      this.#shares.setClock(pipeline, { ...clock, turns: step.turn });
      this.#permits.take(batch, request, now);
      for (const chunk of listDue(step, now)) {
        if (isFull()) break;
        const pending = countPending(chunk.outcomes, chunk.end - chunk.start);
        chunk.state = "leased";
        chunk.fence++;
        chunk.worker = request.worker;
        chunk.leaseUntil = now + request.leaseMs;
        chunk.account = { charge: pending * computeCost(share), busyMs: 0 };
        // A leased step has not stalled, whatever the watch saw before.
        step.watch = FIRST_LOOK;
        taken.items += chunk.end - chunk.start;
        taken.chunks++;
        candidate.served = true;
        taken.pending += pending;
        leased.push(describeLease(batch, chunk, now));
      }
    }
    return taken;
  }

  /** Chunks that are already due could not be leased because of a cap: only later ones count. */
  computeNextDue(request: LeaseRequest, now: number): number | null {
    const dues = this.findBatches(request)
      .map((batch) => computeLeasableAt(currentStep(batch)))
      .filter((dueAt) => dueAt !== null && dueAt > now)
      .map((dueAt) => (dueAt as number) - now);
    return dues.length === 0 ? null : Math.min(...dues);
  }

  findBatches(request: LeaseRequest): Batch[] {
    return [...this.#state.batches.values()].filter(
      (batch) =>
        mayRun(this.#state, batch) &&
        batch.step === request.step &&
        batch.submission.pipeline === request.pipeline &&
        request.versions.includes(batch.submission.version) &&
        (request.batch === null || request.batch === batch.submission.id),
    );
  }
}

/** Whether any chunk of the batch may be leased. */
export function mayRun(state: State, batch: Batch): boolean {
  return batch.state === "running" && batch.cancel === null && findPause(state, batch) === null;
}

/** Retries first, the longest due at the head; then chunks that never ran. */
export function listDue(step: Step, now: number): Chunk[] {
  const due = step.chunks
    .filter((chunk) => chunk.state === "waiting" && chunk.dueAt <= now)
    .toSorted((a, b) => a.dueAt - b.dueAt || a.start - b.start);
  return [...due, ...listFresh(step)];
}

function listFresh(step: Step): Chunk[] {
  return step.chunks
    .slice(0, step.canaryChunks ?? undefined)
    .filter((chunk) => chunk.state === "planned");
}

function computeLeasableAt(step: Step): number | null {
  if (listFresh(step).length > 0) return 0;
  const dues = step.chunks.filter(({ state }) => state === "waiting").map(({ dueAt }) => dueAt);
  return dues.length === 0 ? null : Math.min(...dues);
}

function describeLease(batch: Batch, chunk: Chunk, now: number): LeasedChunk {
  const { start, end, locator, fence, guarded } = chunk;
  const step = currentStep(batch);
  const { maxRedrives } = step.settings;
  const unfinished = [...chunk.tracked.values()].filter(
    ({ index }) => getOutcome(chunk.outcomes, index) === PENDING,
  );
  return {
    batch: batch.submission.id,
    step: batch.step,
    chunk: step.chunks.indexOf(chunk),
    fence,
    start,
    end,
    locator,
    guarded,
    final: step.passes >= maxRedrives,
    ...(keepsLedger(batch) && { ledger: true as const }),
    outcomes: new Uint8Array(chunk.outcomes),
    histories: unfinished
      .toSorted((a, b) => a.index - b.index)
      .map(({ index, attempts, deaths, dueAt, checkpoint, drive }) => ({
        index,
        attempts,
        deaths,
        dueInMs: Math.max(0, dueAt - now),
        checkpoint,
        drive,
      })),
    overrides: [...step.overrides]
      .filter(([item]) => item >= start && item < end)
      .toSorted(([a], [b]) => a - b)
      .map(([item, value]) => ({ index: item - start, value })),
  };
}
