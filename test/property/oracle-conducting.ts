/** Submitting, planning and sealing in the oracle. */
import type {
  ActResult,
  PlanPart,
  PlanResult,
  Submission,
  SubmitResult,
} from "../../src/ports/store/conductor-store.ts";
import { type Batch, hasEnded, itemsOf, makeItem, makeStep, stepOf } from "./oracle-batch.ts";
import { OracleLife } from "./oracle-life.ts";

export class ConductedOracle extends OracleLife {
  submit(asked: Submission): SubmitResult {
    const same = this.#findSame(asked);
    if (same !== undefined) {
      const kind = same.asked.inputHash === asked.inputHash ? "existing" : "key_taken";
      return { kind, batch: this.describe(same) };
    }
    const batch: Batch = {
      asked,
      submittedAt: this.clock.wallMs(),
      state: "submitted",
      active: false,
      sealed: false,
      startedAt: null,
      endedAt: null,
      deadlineAt: asked.deadlineAt,
      reason: null,
      parked: null,
      cancel: null,
      drive: 1,
      sinceDrive: 1,
      step: 0,
      steps: [makeStep(asked.settings.steps[0]!)],
      abandoned: new Map(),
      records: [],
    };
    this.batches.push(batch);
    this.laneOf(batch).push(batch);
    const { pipeline, version, lane, key, inputHash } = asked;
    this.record(batch, "batch.submitted", { pipeline, version, lane, key, inputHash });
    this.startNextInLane(lane);
    return { kind: "created", batch: this.describe(batch) };
  }

  #findSame({ id, key, pipeline, lane, inputHash, resume }: Submission): Batch | undefined {
    const repeated = this.batches.find(({ asked }) => asked.id === id);
    if (repeated !== undefined) return repeated;
    const ours = this.batches.filter(({ asked }) => asked.pipeline === pipeline);
    if (key !== null) return ours.find(({ asked }) => asked.key === key);
    const unfinished = ours.filter((batch) => !hasEnded(batch) && batch.asked.key === null);
    return unfinished.findLast(
      ({ asked }) => resume && asked.lane === lane && asked.inputHash === inputHash,
    );
  }

  startSlicing(id: string, afresh: boolean): ActResult {
    const batch = this.find(id);
    const step = stepOf(batch);
    if (batch.state === "submitted") {
      batch.state = "slicing";
      this.record(batch, "slicing.started", { step: 0 });
    } else if (batch.state !== "slicing") {
      return this.movedOn(batch);
    } else if (afresh) {
      step.chunks = step.chunks.slice(0, step.base);
      step.keys.clear();
      step.cursor = null;
    }
    step.sliceFence += 1;
    return this.done(batch);
  }

  plan({ batch: id, step: at, afterChunks, chunks, cursor, fence, part }: PlanPart): PlanResult {
    const batch = this.find(id);
    const step = stepOf(batch);
    const slices = batch.state === "slicing" && step.sliceFence === fence;
    const grows = slices || (isOpen(batch) && !batch.sealed);
    const answer = { kind: "planned", chunks: afterChunks + chunks.length } as const;
    if (!grows || at !== batch.step || step.chunks.length !== afterChunks) {
      const there = batch.steps[at]?.chunks[afterChunks]?.part === part;
      return there ? answer : this.movedOn(batch);
    }
    const keys = new Map(step.keys);
    let item = itemsOf(step).length;
    for (const planned of chunks) {
      for (const [position, key] of (planned.keys ?? []).entries()) {
        if (key === null) continue;
        const [firstItem, secondItem] = [keys.get(key), item + position];
        if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
        keys.set(key, secondItem);
      }
      item += planned.items;
    }
    for (const [key, position] of keys) step.keys.set(key, position);
    for (const { items, locator } of chunks) {
      step.chunks.push({
        start: itemsOf(step).length,
        items: Array.from({ length: items }, makeItem),
        part,
        locator,
        phase: "planned",
        fence: 0,
        until: 0,
        dueAt: 0,
        guarded: false,
      });
    }
    step.cursor = cursor;
    return answer;
  }

  finishSlicing(id: string, chunks: number, fence: number): ActResult {
    const batch = this.find(id);
    const step = stepOf(batch);
    const slices = batch.state === "slicing" && step.sliceFence === fence;
    if (!slices || step.chunks.length !== chunks) return this.movedOn(batch);
    const items = itemsOf(step).length;
    this.record(batch, "slicing.finished", { step: batch.step, items, chunks });
    step.sliced = true;
    step.slicedDrive = batch.drive;
    if (!batch.asked.open || batch.step > 0) {
      batch.sealed = true;
      step.keys.clear();
    }
    batch.state = batch.active ? "running" : "ready";
    this.advanceBatch(batch);
    return this.done(batch);
  }

  seal(id: string): ActResult {
    const batch = this.find(id);
    if (batch.sealed) return this.done(batch);
    if (!isOpen(batch)) return this.movedOn(batch);
    batch.sealed = true;
    const step = stepOf(batch);
    step.keys.clear();
    const data = { items: itemsOf(step).length, chunks: step.chunks.length };
    this.record(batch, "batch.sealed", data);
    this.advanceBatch(batch);
    return this.done(batch);
  }

  fail(id: string, reason: { code: string; message: string }): ActResult {
    const batch = this.find(id);
    if (hasEnded(batch)) return this.movedOn(batch);
    this.end(batch, "failed", reason);
    this.startNextInLane(batch.asked.lane);
    return this.done(batch);
  }
}

/** Planned as far as its producer has come. */
const isOpen = ({ state }: Batch): boolean => state === "running" || state === "ready";
