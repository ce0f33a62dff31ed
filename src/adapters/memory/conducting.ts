/** Submitting, slicing, sealing and ending on the reference model. */
import { type EndReason, isEnded } from "../../core/batch.ts";
import { CHAIN_START } from "../../core/chain.ts";
import { NO_ITEMS, planItems } from "../../core/counts.ts";
import { createOutcomeMap } from "../../core/outcome-map.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  ActResult,
  PlannedChunk,
  PlanPart,
  PlanResult,
  Submission,
  SubmitResult,
} from "../../ports/conducting.ts";
import type { Recorder } from "./records.ts";
import { type Batch, type State, takeSnapshot } from "./state.ts";

export class Conducting {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #recorder: Recorder;

  constructor(state: State, clock: Clock, recorder: Recorder) {
    this.#state = state;
    this.#clock = clock;
    this.#recorder = recorder;
  }

  claim(duty: string, worker: number, forMs: number): boolean {
    const now = this.#clock.monotonicMs();
    const held = this.#state.claims.get(duty);
    if (held !== undefined && held.worker !== worker && held.until > now) return false;
    this.#state.claims.set(duty, { worker, until: now + forMs });
    return true;
  }

  unclaim(duty: string, worker: number): void {
    if (this.#state.claims.get(duty)?.worker === worker) this.#state.claims.delete(duty);
  }

  submit(submission: Submission): SubmitResult {
    const same = this.#findSame(submission);
    if (same !== undefined) {
      const taken = same.submission.inputHash !== submission.inputHash;
      return { kind: taken ? "key_taken" : "existing", batch: takeSnapshot(same) };
    }
    const now = this.#clock.wallMs();
    const needsProducer = submission.open || submission.input === null;
    const batch: Batch = {
      submission,
      submittedAt: now,
      sealDeadlineAt: needsProducer ? now + submission.sealWithinMs : null,
      state: "submitted",
      sealed: false,
      startedAt: null,
      endedAt: null,
      reason: null,
      sliceCursor: null,
      sliceFence: 0,
      counts: NO_ITEMS,
      chunks: [],
      keys: new Map(),
      results: new Map(),
      head: CHAIN_START,
    };
    this.#state.batches.set(submission.id, batch);
    const { pipeline, version, lane, key, inputHash } = submission;
    this.#recorder.record(batch, {
      type: "batch.submitted",
      data: { pipeline, version, lane, key, inputHash },
    });
    return { kind: "created", batch: takeSnapshot(batch) };
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
    if (batch.state === "submitted") {
      this.#recorder.move(batch, "start_slicing");
      batch.startedAt = this.#clock.wallMs();
      this.#recorder.record(batch, { type: "batch.started", data: {} });
      this.#recorder.record(batch, { type: "slicing.started", data: {} });
    } else if (batch.state !== "slicing") {
      return { kind: "moved_on", batch: takeSnapshot(batch) };
    } else if (afresh) {
      batch.chunks = [];
      batch.keys.clear();
      batch.counts = NO_ITEMS;
      batch.sliceCursor = null;
    }
    batch.sliceFence++;
    return { kind: "done", batch: takeSnapshot(batch) };
  }

  plan(batch: Batch, part: PlanPart): PlanResult {
    const slices = batch.state === "slicing" && batch.sliceFence === part.fence;
    const accepts = slices || (batch.state === "running" && !batch.sealed);
    if (!accepts || batch.chunks.length !== part.afterChunks) {
      const mine = batch.chunks[part.afterChunks]?.part === part.part;
      return mine
        ? { kind: "planned", chunks: part.afterChunks + part.chunks.length }
        : { kind: "moved_on", batch: takeSnapshot(batch) };
    }
    const duplicate = this.#claimKeys(batch, part);
    if (duplicate !== null) return duplicate;
    for (const chunk of part.chunks) this.#append(batch, chunk, part.part);
    batch.sliceCursor = part.cursor;
    return { kind: "planned", chunks: batch.chunks.length };
  }

  #claimKeys(batch: Batch, part: PlanPart): PlanResult | null {
    const claimed = new Map<string, number>();
    let item = batch.counts.planned;
    for (const chunk of part.chunks) {
      for (const [position, key] of (chunk.keys ?? []).entries()) {
        if (key === null) continue;
        const secondItem = item + position;
        const firstItem = batch.keys.get(key) ?? claimed.get(key);
        if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
        claimed.set(key, secondItem);
      }
      item += chunk.items;
    }
    for (const [key, index] of claimed) batch.keys.set(key, index);
    return null;
  }

  #append(batch: Batch, { items, locator, manifest }: PlannedChunk, part: string): void {
    const start = batch.counts.planned;
    batch.counts = planItems(batch.counts, items);
    batch.chunks.push({
      start,
      end: start + items,
      locator,
      manifest,
      part,
      state: "planned",
      fence: 0,
      leaseUntil: 0,
      dueAt: 0,
      careful: false,
      outcomes: createOutcomeMap(items),
      tracked: new Map(),
      failedAt: new Map(),
    });
  }

  finishSlicing(batch: Batch, chunks: number, fence: number): ActResult {
    const slices = batch.state === "slicing" && batch.sliceFence === fence;
    if (!slices || batch.chunks.length !== chunks) {
      return { kind: "moved_on", batch: takeSnapshot(batch) };
    }
    this.#recorder.move(batch, "finish_slicing");
    this.#recorder.record(batch, {
      type: "slicing.finished",
      data: { items: batch.counts.planned, chunks },
    });
    if (!batch.submission.open) {
      batch.sealed = true;
      batch.keys.clear();
    }
    this.#recorder.endIfFinished(batch);
    return { kind: "done", batch: takeSnapshot(batch) };
  }

  seal(batch: Batch): ActResult {
    if (!batch.sealed) {
      if (batch.state !== "running") return { kind: "moved_on", batch: takeSnapshot(batch) };
      batch.sealed = true;
      batch.keys.clear();
      this.#recorder.record(batch, {
        type: "batch.sealed",
        data: { items: batch.counts.planned, chunks: batch.chunks.length },
      });
      this.#recorder.endIfFinished(batch);
    }
    return { kind: "done", batch: takeSnapshot(batch) };
  }

  fail(batch: Batch, reason: EndReason): ActResult {
    if (isEnded(batch.state)) return { kind: "moved_on", batch: takeSnapshot(batch) };
    this.#recorder.endEarly(batch, "fail", reason);
    return { kind: "done", batch: takeSnapshot(batch) };
  }
}
