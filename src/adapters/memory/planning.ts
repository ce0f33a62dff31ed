/** Submitting, slicing, sealing and ending on the reference model. */
import { type EndReason, isEnded } from "../../core/batch/batch.ts";
import { NO_ITEMS, planItems } from "../../core/batch/counts.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import { computeCanaryChunks } from "../../core/batch/step.ts";
import type { Clock } from "../../ports/clock.ts";
import {
  type ActResult,
  type PlannedChunk,
  type PlanPart,
  type PlanResult,
  type Submission,
  type SubmitResult,
  describeSubmitted,
} from "../../ports/store/conductor-store.ts";
import type { Lanes } from "./lanes.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { RecordLog } from "./records.ts";
import {
  type Batch,
  createBatch,
  currentStep,
  type State,
  type Step,
  takeSnapshot,
} from "./state.ts";

export class Planning {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #records: RecordLog;
  readonly #lanes: Lanes;
  readonly #lifecycle: BatchLifecycle;

  constructor(
    state: State,
    clock: Clock,
    records: RecordLog,
    lanes: Lanes,
    lifecycle: BatchLifecycle,
  ) {
    this.#state = state;
    this.#clock = clock;
    this.#records = records;
    this.#lanes = lanes;
    this.#lifecycle = lifecycle;
  }

  claim(task: string, worker: number, forMs: number): boolean {
    const now = this.#clock.monotonicMs();
    const held = this.#state.claims.get(task);
    if (held !== undefined && held.worker !== worker && held.until > now) return false;
    this.#state.claims.set(task, { worker, until: now + forMs });
    return true;
  }

  unclaim(task: string, worker: number): void {
    if (this.#state.claims.get(task)?.worker === worker) this.#state.claims.delete(task);
  }

  submit(submission: Submission): SubmitResult {
    const same = this.#findSame(submission);
    if (same !== undefined) {
      const taken = same.submission.inputHash !== submission.inputHash;
      return { kind: taken ? "key_taken" : "existing", batch: takeSnapshot(this.#state, same) };
    }
    const { lane } = submission;
    const batch = createBatch(submission, this.#clock, this.#lanes.computeBack(lane));
    this.#state.batches.set(submission.id, batch);
    this.#records.record(batch, describeSubmitted(submission));
    this.#lifecycle.startNextInLane(batch.submission.lane);
    return { kind: "created", batch: takeSnapshot(this.#state, batch) };
  }

  #findSame(submission: Submission): Batch | undefined {
    const { id, pipeline, lane, key, inputHash } = submission;
    const batches = [...this.#state.batches.values()];
    const repeated = this.#state.batches.get(id);
    if (repeated !== undefined) return repeated;
    if (key !== null) {
      return batches.find(
        (batch) => batch.submission.pipeline === pipeline && batch.submission.key === key,
      );
    }
    if (!submission.resume) return undefined;
    return batches.findLast(
      (batch) =>
        batch.submission.pipeline === pipeline &&
        batch.submission.lane === lane &&
        batch.submission.key === null &&
        batch.submission.inputHash === inputHash &&
        !isEnded(batch.state),
    );
  }

  startSlicing(batch: Batch, afresh: boolean): ActResult {
    const step = currentStep(batch);
    if (batch.state === "submitted") {
      this.#records.move(batch, "start_slicing");
      this.#records.record(batch, { type: "slicing.started", data: { step: 0 } });
    } else if (batch.state !== "slicing") {
      return this.#movedOn(batch);
    } else if (afresh) {
      dropPlan(step);
    }
    step.sliceFence++;
    batch.activityAt = this.#clock.monotonicMs();
    return this.#done(batch);
  }

  plan(batch: Batch, part: PlanPart): PlanResult {
    const step = currentStep(batch);
    const slices = batch.state === "slicing" && step.sliceFence === part.fence;
    const accepts = slices || (isOpen(batch) && !batch.sealed);
    const fits = part.step === batch.step && step.chunks.length === part.afterChunks;
    if (!accepts || !fits) {
      const mine = batch.steps[part.step]?.chunks[part.afterChunks]?.part === part.part;
      return mine
        ? { kind: "planned", chunks: part.afterChunks + part.chunks.length }
        : this.#movedOn(batch);
    }
    const duplicate = this.#claimKeys(step, part);
    if (duplicate !== null) return duplicate;
    for (const chunk of part.chunks) append(step, chunk, part.part);
    step.sliceCursor = part.cursor;
    batch.activityAt = this.#clock.monotonicMs();
    return { kind: "planned", chunks: step.chunks.length };
  }

  #claimKeys(step: Step, part: PlanPart): PlanResult | null {
    const claimed = new Map<string, number>();
    let item = step.counts.planned;
    for (const chunk of part.chunks) {
      for (const [position, key] of (chunk.keys ?? []).entries()) {
        if (key === null) continue;
        const secondItem = item + position;
        const firstItem = step.keys.get(key) ?? claimed.get(key);
        if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
        claimed.set(key, secondItem);
      }
      item += chunk.items;
    }
    for (const [key, index] of claimed) step.keys.set(key, index);
    return null;
  }

  finishSlicing(batch: Batch, chunks: number, fence: number): ActResult {
    const step = currentStep(batch);
    const slices = batch.state === "slicing" && step.sliceFence === fence;
    if (!slices || step.chunks.length !== chunks) return this.#movedOn(batch);
    this.#records.record(batch, {
      type: "slicing.finished",
      data: { step: batch.step, items: step.counts.planned, chunks },
    });
    const { canary, chunkSize } = step.settings;
    if (canary !== null && step.baseChunks === 0) {
      step.canaryChunks = computeCanaryChunks(canary, chunkSize);
    }
    step.sliced = true;
    step.slicedDrive = batch.drive;
    if (!batch.submission.open) seal(batch);
    this.#records.move(batch, batch.active ? "finish_slicing" : "await_turn");
    this.#lifecycle.advanceBatch(batch);
    return this.#done(batch);
  }

  seal(batch: Batch): ActResult {
    if (!batch.sealed) {
      if (!isOpen(batch)) return this.#movedOn(batch);
      seal(batch);
      const { counts, chunks } = currentStep(batch);
      this.#records.record(batch, {
        type: "batch.sealed",
        data: { items: counts.planned, chunks: chunks.length },
      });
      this.#lifecycle.advanceBatch(batch);
    }
    return this.#done(batch);
  }

  fail(batch: Batch, reason: EndReason): ActResult {
    if (isEnded(batch.state)) return this.#movedOn(batch);
    this.#lifecycle.endEarly(batch, "fail", reason);
    return this.#done(batch);
  }

  #done(batch: Batch): ActResult {
    return { kind: "done", batch: takeSnapshot(this.#state, batch) };
  }

  #movedOn(batch: Batch): ActResult & { kind: "moved_on" } {
    return { kind: "moved_on", batch: takeSnapshot(this.#state, batch) };
  }
}

/** Planned as far as its producer has added items. */
function isOpen({ state }: Batch): boolean {
  return state === "running" || state === "ready";
}

function seal(batch: Batch): void {
  batch.sealed = true;
  currentStep(batch).keys.clear();
}

/** Chunks that an earlier drive planned stay. */
function dropPlan(step: Step): void {
  const dropped = step.chunks.splice(step.baseChunks);
  const items = dropped.reduce((sum, { start, end }) => sum + end - start, 0);
  const { counts } = step;
  step.counts =
    step.baseChunks === 0
      ? NO_ITEMS
      : { ...counts, planned: counts.planned - items, pending: counts.pending - items };
  step.keys.clear();
  step.sliceCursor = null;
}

function append(step: Step, { items, locator, manifest }: PlannedChunk, part: string): void {
  const start = step.counts.planned;
  step.counts = planItems(step.counts, items);
  step.chunks.push({
    start,
    end: start + items,
    locator,
    manifest,
    part,
    state: "planned",
    fence: 0,
    worker: 0,
    leaseUntil: 0,
    dueAt: 0,
    guarded: false,
    losses: 0,
    limitWait: null,
    account: { charge: 0, busyMs: 0 },
    outcomes: createOutcomeMap(items),
    tracked: new Map(),
    failedAt: new Map(),
  });
}
