/** Handles everything that expired on the reference model: leases, deadlines, watches, orphans. */
import { type EndReason, isEnded } from "../../core/batch/batch.ts";
import { decideLoss, failPending, STALLED } from "../../core/items/loss.ts";
import {
  computeWatchDelayMs,
  countsAsStall,
  decideWatch,
  FIRST_LOOK,
  isWithoutProgress,
  noteLook,
} from "../../core/batch/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import { nameSlicingTask } from "../../ports/store/conductor-store.ts";
import type { SweepPolicy, SweepResult } from "../../ports/store/worker-store.ts";
import type { Lanes } from "./lanes.ts";
import { findPlace, keepsLedger, type Ledger } from "./ledger.ts";
import { listDue, mayRun } from "./leasing.ts";
import { type BatchLifecycle, readStored } from "./batch-lifecycle.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import {
  type Batch,
  type Chunk,
  currentStep,
  findPause,
  hasLeases,
  hasWorker,
  noteAbandoned,
  type State,
  type Step,
} from "./state.ts";
import type { Settling } from "./settling.ts";

export interface SweepingParts {
  readonly state: State;
  readonly clock: Clock;
  readonly lanes: Lanes;
  readonly lifecycle: BatchLifecycle;
  readonly settling: Settling;
  readonly permits: ConcurrencyPermits;
  readonly ledger: Ledger;
}

/** A chunk whose lease expired. */
interface Lost {
  readonly batch: Batch;
  readonly step: Step;
  readonly number: number;
  readonly at: number;
  readonly chunk: Chunk;
}

export class Sweeping {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #lanes: Lanes;
  readonly #lifecycle: BatchLifecycle;
  readonly #settling: Settling;
  readonly #permits: ConcurrencyPermits;
  readonly #ledger: Ledger;

  constructor(parts: SweepingParts) {
    this.#state = parts.state;
    this.#clock = parts.clock;
    this.#lanes = parts.lanes;
    this.#lifecycle = parts.lifecycle;
    this.#settling = parts.settling;
    this.#permits = parts.permits;
    this.#ledger = parts.ledger;
  }

  /**
   * One kind of act after the other; the batches of each kind are listed before its first act. A
   * batch that a sweep starts is checked by the next sweep.
   */
  sweep(policy: SweepPolicy): SweepResult {
    const batches = [...this.#state.batches.values()].filter(({ state }) => !isEnded(state));
    const lost = this.#sweepLeases(batches, policy.graceMs ?? 0);
    this.#permits.sweep(this.#clock.monotonicMs());
    const ended = [
      ...lost.ended,
      // Waiting batches first: none must be started only to expire.
      ...batches
        .toSorted((a, b) => Number(a.active) - Number(b.active))
        .flatMap((batch) => this.#sweepDeadlines(batch)),
    ];
    let tended = 0;
    for (const batch of this.#listWatched(batches)) {
      if (this.#watch(batch, policy, ended)) tended++;
    }
    // Each lane starts its next batch at once, as a server must. A batch that starts now is not
    // looked at before the next sweep.
    const holders = batches.filter(mayTend);
    const start = ({ submission }: Batch): void => {
      tended++;
      ended.push(...this.#lifecycle.startNextInLane(submission.lane));
    };
    for (const batch of holders) if (this.#parkStale(batch, policy)) start(batch);
    for (const batch of holders) if (this.#tendLane(batch, policy)) start(batch);
    for (const lane of this.#lanes.listIdle()) ended.push(...this.#lifecycle.startNextInLane(lane));
    return { lostLeases: lost.count, tended, ended };
  }

  /** In the order in which they expired, but all of one batch together, as a server must. */
  #sweepLeases(
    batches: readonly Batch[],
    graceMs: number,
  ): { readonly count: number; readonly ended: string[] } {
    const now = this.#clock.monotonicMs();
    const lost = batches
      .flatMap((batch) =>
        batch.steps.flatMap((step, number) =>
          [...step.chunks.entries()].map(([at, chunk]) => ({ batch, step, number, at, chunk })),
        ),
      )
      .filter(({ chunk }) => chunk.state === "leased" && chunk.leaseUntil <= now - graceMs)
      .toSorted((a, b) => a.chunk.leaseUntil - b.chunk.leaseUntil);
    const ended: string[] = [];
    for (const [batch, chunks] of Map.groupBy(lost, (one) => one.batch)) {
      for (const one of chunks) this.#lose(one, now);
      ended.push(...this.#lifecycle.advanceBatch(batch));
    }
    return { count: lost.length, ended };
  }

  #lose({ batch, step, number, at, chunk }: Lost, now: number): void {
    chunk.guarded = true;
    if (batch.cancel !== null) noteAbandoned(batch, { step: number, chunk: at, items: null });
    const stored = readStored(chunk);
    const effect = decideLoss(stored, now);
    if (keepsLedger(batch)) {
      const place = findPlace(batch, step, chunk, chunk.worker);
      this.#ledger.write(batch, place, { stored, effect, cause: "lost" });
    }
    this.#settling.apply(batch, step, chunk, effect);
  }

  #sweepDeadlines(batch: Batch): string[] {
    const reason = this.#findPassedDeadline(batch);
    return reason === null ? [] : this.#lifecycle.endEarly(batch, "expire", reason);
  }

  #findPassedDeadline(batch: Batch): EndReason | null {
    if (isEnded(batch.state)) return null;
    const now = this.#clock.wallMs();
    const { sealed, sealDeadlineAt, deadlineAt } = batch;
    if (deadlineAt !== null && deadlineAt <= now) {
      return { code: "DEADLINE", message: "it did not end before its deadline" };
    }
    if (!sealed && sealDeadlineAt !== null && sealDeadlineAt <= now) {
      return { code: "SEAL_DEADLINE", message: "its producer did not seal it in time" };
    }
    return null;
  }

  /** The steps that are due for a look, the longest due first. */
  #listWatched(batches: readonly Batch[]): Batch[] {
    const now = this.#clock.monotonicMs();
    return batches
      .filter((batch) => mayRun(this.#state, batch) && currentStep(batch).watchDueAt <= now)
      .toSorted((a, b) => currentStep(a).watchDueAt - currentStep(b).watchDueAt);
  }

  /** Checks whether a running batch makes progress; true when it had to act. */
  #watch(batch: Batch, policy: SweepPolicy, ended: string[]): boolean {
    const step = currentStep(batch);
    const now = this.#clock.monotonicMs();
    const look = {
      ...step.watch,
      current: step.counts.pending,
      target: 0,
      stallsMax: policy.stallsMax,
    };
    const decision = decideWatch(look);
    const facts = {
      hasDueWork: listDue(step, now).length > 0,
      hasLiveLease: hasLeases(batch),
      isPaused: false,
      hasWorker: this.#hasWorker(batch),
      areWorkersBusy: this.#isPipelineBusy(batch.submission.pipeline),
      isAtLimit: this.#permits.findFull(batch, now) !== null,
    };
    if (decision === "progress_made" || facts.hasLiveLease) {
      batch.activityAt = this.#clock.monotonicMs();
    }
    const stalls = isWithoutProgress(decision) && countsAsStall(facts);
    step.watch = noteLook(look, decision, facts);
    step.watchDueAt =
      now +
      computeWatchDelayMs(look.current, stalls ? decision : "progress_made", policy.watchDelays);
    if (!stalls) return false;
    if (decision !== "retries_exhausted") return true;
    step.watch = FIRST_LOOK;
    for (const chunk of step.chunks) {
      if (chunk.state !== "planned" && chunk.state !== "waiting") continue;
      const stored = readStored(chunk);
      const effect = failPending(stored, STALLED);
      if (keepsLedger(batch)) {
        const place = findPlace(batch, step, chunk, null);
        this.#ledger.write(batch, place, { stored, effect, cause: "stalled" });
      }
      chunk.fence++;
      this.#settling.apply(batch, step, chunk, effect);
    }
    ended.push(...this.#lifecycle.advanceBatch(batch));
    return true;
  }

  /** A worker holds a live lease on a batch of the pipeline. */
  #isPipelineBusy(pipeline: string): boolean {
    const now = this.#clock.monotonicMs();
    return [...this.#state.batches.values()].some(
      ({ submission, steps }) =>
        submission.pipeline === pipeline &&
        steps.some(({ chunks }) =>
          chunks.some(({ state, leaseUntil }) => state === "leased" && leaseUntil > now),
        ),
    );
  }

  #hasWorker(batch: Batch): boolean {
    return hasWorker(this.#state, this.#clock.monotonicMs(), batch);
  }

  /** A batch whose slicing was abandoned leaves its lane; true when its lane is free now. */
  #parkStale(batch: Batch, policy: SweepPolicy): boolean {
    if (!mayTend(batch) || findPause(this.#state, batch) !== null) return false;
    if (!this.#isIdleFor(batch, policy.staleMs)) return false;
    const unplanned = batch.state === "submitted" || batch.state === "slicing";
    const worked = this.#state.claims.get(nameSlicingTask(batch.submission.id));
    if (!unplanned || (worked?.until ?? 0) > this.#clock.monotonicMs()) return false;
    currentStep(batch).sliceFence++;
    this.#lanes.park(batch, {
      code: "STALE",
      message: "slicing stopped and did not resume for hours",
    });
    return true;
  }

  /** A stuck holder of a lane makes way; true when its lane is free now. */
  #tendLane(batch: Batch, policy: SweepPolicy): boolean {
    if (!mayTend(batch)) return false;
    const pause = findPause(this.#state, batch);
    if (pause !== null) return this.#lanes.tendHolder(batch, `its ${pause.scope} is paused`);
    const orphaned = this.#isIdleFor(batch, policy.orphanMs) && !hasLeases(batch);
    if (!orphaned || this.#hasWorker(batch)) return false;
    return this.#lanes.tendHolder(batch, "no worker has its pipeline");
  }

  /** It had no activity for this long. */
  #isIdleFor({ activityAt }: Batch, idleMs: number): boolean {
    return this.#clock.monotonicMs() - activityAt >= idleMs;
  }
}

/** It holds its lane and is not being cancelled. */
function mayTend({ active, state, cancel }: Batch): boolean {
  return active && !isEnded(state) && cancel === null;
}
