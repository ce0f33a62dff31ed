/** Advances batches of the reference model from step to step and to their end. */
import { type BatchEvent, decideEnding, type EndReason, isEnded } from "../../core/batch/batch.ts";
import { nameCapScope } from "../../core/limits/caps.ts";
import { cancelPending, redriveItems } from "../../core/batch/counts.ts";
import { decideBudget, describeSpent } from "../../core/batch/failure-budget.ts";
import { invariant } from "../../core/base/invariant.ts";
import { decideRedrive, type RedriveOrder } from "../../core/items/redrive.ts";
import type { TrackedItem } from "../../core/items/tracked-item.ts";
import {
  decideCanary,
  decideStepEnd,
  describeCanaryFailure,
  describeEnding,
  describeStepEnd,
  isRedrivable,
  type StepSettings,
} from "../../core/batch/step.ts";
import { FIRST_LOOK } from "../../core/batch/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Lanes } from "./lanes.ts";
import { findPlace, keepsLedger, type Ledger } from "./ledger.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import type { RecordLog } from "./records.ts";
import type { FairShares } from "./fair-shares.ts";
import {
  type Batch,
  type Chunk,
  countAll,
  createStep,
  currentStep,
  hasLeases,
  type Step,
} from "./state.ts";

export interface LifeParts {
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
  readonly ledger: Ledger;
}

export class BatchLifecycle {
  readonly #clock: Clock;
  readonly #records: RecordLog;
  readonly #lanes: Lanes;
  readonly #shares: FairShares;
  readonly #permits: ConcurrencyPermits;
  readonly #ledger: Ledger;

  constructor(parts: LifeParts) {
    this.#clock = parts.clock;
    this.#records = parts.records;
    this.#lanes = parts.lanes;
    this.#shares = parts.shares;
    this.#permits = parts.permits;
    this.#ledger = parts.ledger;
  }

  /** Applies what a change of its items makes due; returns the batches that ended because of it. */
  advanceBatch(batch: Batch): string[] {
    return this.#advance(batch)
      ? [batch.submission.id, ...this.startNextInLane(batch.submission.lane)]
      : [];
  }

  /**
   * Starts the next batch of a free lane, past those that end at once; returns those that ended.
   */
  startNextInLane(lane: string): string[] {
    const ended: string[] = [];
    for (;;) {
      const next = this.#lanes.startNextInLane(lane);
      if (next === null || !this.#advance(next)) return ended;
      ended.push(next.submission.id);
    }
  }

  /** Ends the batch early: items that did not run are cancelled, and no lease is valid any more. */
  endEarly(batch: Batch, event: "fail" | "expire" | "cancel", reason: EndReason | null): string[] {
    this.#stop(batch, event, reason);
    return [batch.submission.id, ...this.startNextInLane(batch.submission.lane)];
  }

  /** True when the batch ended. */
  #advance(batch: Batch): boolean {
    if (isEnded(batch.state)) return false;
    if (batch.cancel !== null) {
      if (hasLeases(batch)) return false;
      this.#stop(batch, "cancel", null);
      return true;
    }
    if (batch.state !== "running") return false;
    const step = currentStep(batch);
    const stopped = this.#judgeFailures(batch, step);
    if (stopped !== null) {
      this.#stop(batch, "fail", stopped);
      return true;
    }
    const redrivable = listRedrivable(step);
    const { maxRedrives } = step.settings;
    const { settings } = batch.submission;
    const end = decideStepEnd({
      counts: step.counts,
      sealed: batch.sealed,
      passes: step.passes,
      maxRedrives,
      redrivable: redrivable.length,
      isLast: batch.step === settings.steps.length - 1,
    });
    switch (end.kind) {
      case "goes_on":
        return false;
      case "redrive":
        this.#redrivePass(batch, step, redrivable, end.final);
        return false;
      case "next_step":
        return this.#startNextStep(batch);
      case "end":
        this.#end(batch, decideEnding(countAll(batch)), null);
        return true;
    }
  }

  /**
   * Why the failures so far stop the batch; starts the rest of a step once its canary has passed.
   */
  #judgeFailures(batch: Batch, step: Step): EndReason | null {
    const { budget, canary } = step.settings;
    const spent =
      budget === null ? null : decideBudget(budget, step.tally, step.counts.planned, batch.sealed);
    if (spent !== null) return describeSpent(spent);
    if (canary === null || step.canaryChunks === null) return null;
    const first = step.chunks.slice(0, step.canaryChunks);
    const unplanned = !batch.sealed && first.length < step.canaryChunks;
    const isUnderWay = unplanned || first.some(({ state }) => state !== "settled");
    const verdict = decideCanary(canary, step.counts.failed, isUnderWay);
    if (verdict === "failed") return describeCanaryFailure(canary, step.counts.failed);
    if (verdict === "passed") step.canaryChunks = null;
    return null;
  }

  #redrivePass(batch: Batch, step: Step, letters: readonly Letter[], final: boolean): void {
    step.passes++;
    const now = this.#clock.monotonicMs();
    this.redrive(
      batch,
      step,
      letters.map((letter) => ({ ...letter, dueAt: now })),
    );
    this.#records.record(batch, {
      type: "dead_letters.redriven",
      data: {
        step: batch.step,
        drive: batch.drive,
        items: letters.length,
        pass: step.passes,
        final,
        by: "engine",
      },
    });
  }

  /** Opens a new drive for these dead letters of one step. */
  redrive(batch: Batch, step: Step, letters: readonly (Letter & { dueAt: number })[]): void {
    batch.drive++;
    for (const [chunk, ofChunk] of Map.groupBy(letters, (letter) => letter.chunk)) {
      const orders: RedriveOrder[] = ofChunk.map(({ item, dueAt }) => ({
        index: item.index,
        dueAt,
      }));
      const effect = decideRedrive(readStored(chunk), orders, batch.drive);
      if (keepsLedger(batch)) {
        const place = findPlace(batch, step, chunk, null);
        const { drive } = batch;
        this.#ledger.writeRedriven(batch, place, chunk.outcomes, effect.outcomes, drive);
      }
      chunk.outcomes = effect.outcomes;
      for (const item of effect.track) chunk.tracked.set(item.index, item);
      chunk.dueAt = chunk.state === "waiting" ? Math.min(chunk.dueAt, effect.dueAt) : effect.dueAt;
      chunk.state = "waiting";
      chunk.limitWait = null;
      step.counts = redriveItems(step.counts, effect.count);
      step.tally = {
        permanent: step.tally.permanent - effect.tally.permanent,
        transient: step.tally.transient - effect.tally.transient,
        unexpected: step.tally.unexpected - effect.tally.unexpected,
      };
    }
  }

  /** Starts the next step that has work; true when there is none and the batch ended. */
  #startNextStep(batch: Batch): boolean {
    const { steps } = batch.submission.settings;
    this.#recordStepEnd(batch);
    while (batch.step < steps.length - 1) {
      batch.step++;
      const known = batch.steps[batch.step];
      const settings = steps[batch.step] as StepSettings;
      // A step that an earlier drive planned is planned further only if it gets rescued items.
      if (known === undefined || !known.sliced || settings.carries) {
        const step = known ?? createStep(settings);
        batch.steps[batch.step] = step;
        step.baseChunks = step.chunks.length;
        step.sliced = false;
        step.sliceCursor = null;
        // Higher than any before, so that a slicer of an earlier step cannot finish this one.
        step.sliceFence = 1 + Math.max(...batch.steps.map(({ sliceFence }) => sliceFence));
        // The step already has everything that it was planned from before.
        batch.sinceDrive = step.slicedDrive + 1;
        step.watch = FIRST_LOOK;
        batch.activityAt = this.#clock.monotonicMs();
        this.#records.move(batch, "next_step");
        this.#records.record(batch, { type: "slicing.started", data: { step: batch.step } });
        return false;
      }
      if (known.counts.pending > 0) return false;
    }
    this.#end(batch, decideEnding(countAll(batch)), null);
    return true;
  }

  #recordStepEnd(batch: Batch): void {
    const { settings, counts } = currentStep(batch);
    this.#records.record(batch, describeStepEnd({ step: batch.step, name: settings.name, counts }));
  }

  #stop(batch: Batch, event: "fail" | "expire" | "cancel", reason: EndReason | null): void {
    for (const step of batch.steps) {
      step.counts = cancelPending(step.counts);
      for (const chunk of step.chunks) {
        if (chunk.state === "leased" || chunk.state === "waiting") chunk.state = "cancelled";
      }
    }
    if ((currentStep(batch).settings.unsentTopic ?? null) !== null) batch.unsentAfter = -1;
    this.#end(batch, event, reason);
  }

  #end(batch: Batch, event: BatchEvent, reason: EndReason | null): void {
    const from = batch.state;
    const { settings, counts } = currentStep(batch);
    this.#records.move(batch, event);
    invariant(isEnded(batch.state), `${event} must end a batch`);
    batch.endedAt = this.#clock.wallMs();
    batch.reason = reason;
    batch.parked = null;
    this.#lanes.forgetPause(batch);
    this.#shares.tidy(batch.submission.pipeline);
    this.#permits.forget(nameCapScope("batch", batch.submission.id));
    for (const step of batch.steps) step.keys.clear();
    const records = describeEnding({
      from,
      to: batch.state,
      step: { step: batch.step, name: settings.name, counts },
      counts: countAll(batch),
      drive: batch.drive,
      reason,
      abandoned: batch.abandoned,
    });
    for (const record of records) this.#records.record(batch, record);
    this.#lanes.release(batch);
  }
}

/** A dead letter and its place. */
export interface Letter {
  readonly chunk: Chunk;
  readonly item: TrackedItem;
}

export function listLetters(step: Step): Letter[] {
  return step.chunks.flatMap((chunk) =>
    [...chunk.tracked.values()]
      .filter(({ dead }) => dead)
      .toSorted((a, b) => a.index - b.index)
      .map((item) => ({ chunk, item })),
  );
}

/** The dead letters that an automatic pass redrives. */
function listRedrivable(step: Step): Letter[] {
  return listLetters(step).filter(
    ({ chunk, item: { error, index } }) =>
      error !== null &&
      isRedrivable(error.errorClass, error.code) &&
      !step.discarded.has(chunk.start + index),
  );
}

export function readStored(chunk: Chunk): {
  items: number;
  outcomes: Uint8Array;
  tracked: TrackedItem[];
  losses: number;
} {
  return {
    items: chunk.end - chunk.start,
    outcomes: chunk.outcomes,
    tracked: [...chunk.tracked.values()],
    losses: chunk.losses,
  };
}
