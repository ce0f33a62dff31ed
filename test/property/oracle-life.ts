/**
 * Lanes, turns, steps and endings in the simplest form. A lane is a list of batches in order, one
 * of them has its turn, and each terminal item checks whether it was the last.
 */
import type { Clock } from "../../src/ports/clock.ts";
import {
  type Batch,
  countAll,
  countStep,
  type Done,
  describe,
  type Ending,
  hasEnded,
  hasLeases,
  type Item,
  itemsOf,
  makeStep,
  type MovedOn,
  type Pause,
  pendingOf,
  type Step,
  stepOf,
} from "./oracle-batch.ts";

type Reason = { readonly code: string; readonly message: string };

export class OracleLife {
  readonly batches: Batch[] = [];
  readonly clock: Clock;
  readonly policies = new Map<string, "block" | "skip" | "park">();
  readonly pauses = new Map<string, Pause>();
  /**
   * The unfinished batches of each lane in order: the holder, the waiting ones, the parked ones.
   */
  readonly lanes = new Map<string, Batch[]>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  find(id: string): Batch {
    const batch = this.batches.find(({ asked }) => asked.id === id);
    if (batch === undefined) throw new Error(`the oracle knows no batch ${id}`);
    return batch;
  }

  describe(batch: Batch): ReturnType<typeof describe> {
    return describe(batch, this.findPause(batch));
  }

  done(batch: Batch): Done {
    return { kind: "done", batch: this.describe(batch) };
  }

  movedOn(batch: Batch): MovedOn {
    return { kind: "moved_on", batch: this.describe(batch) };
  }

  record(batch: Batch, type: string, data: object): void {
    batch.records.push({ type, at: new Date(this.clock.wallMs()).toISOString(), data });
  }

  findPause({ asked: { id, lane, pipeline } }: Batch): Pause | null {
    const names = [`batch/${id}`, `lane/${lane}`, `pipeline/${pipeline}`];
    return names.map((name) => this.pauses.get(name)).find((one) => one !== undefined) ?? null;
  }

  laneOf({ asked: { lane } }: Batch): Batch[] {
    const known = this.lanes.get(lane) ?? [];
    this.lanes.set(lane, known);
    return known;
  }

  waitingIn(lane: string): Batch[] {
    return (this.lanes.get(lane) ?? []).filter(({ active, parked }) => !active && parked === null);
  }

  /** Passes a free lane on, past batches that end at once; returns those. */
  startNextInLane(lane: string): string[] {
    const ended: string[] = [];
    while (!(this.lanes.get(lane) ?? []).some(({ active }) => active)) {
      const next = this.#chooseNext(lane);
      if (next === null) break;
      next.active = true;
      next.startedAt ??= this.clock.wallMs();
      this.record(next, "batch.started", { step: next.step, drive: next.drive });
      if (next.state === "ready") next.state = "running";
      if (this.advance(next)) ended.push(next.asked.id);
    }
    return ended;
  }

  #chooseNext(lane: string): Batch | null {
    const policy = this.policies.get(lane) ?? "block";
    for (const batch of this.waitingIn(lane)) {
      const pause = this.findPause(batch);
      if (pause === null || policy === "block") return batch;
      if (policy === "park") this.park(batch, `its ${pause.scope} is paused`);
    }
    return null;
  }

  park(batch: Batch, message: string): void {
    batch.parked = { code: "STUCK", message };
    this.record(batch, "batch.parked", { code: "STUCK", message });
    this.stepAside(batch);
  }

  stepAside(batch: Batch): void {
    if (batch.state === "running") batch.state = "ready";
    this.#release(batch);
  }

  #release(batch: Batch): void {
    if (batch.active) this.record(batch, "batch.released", { lane: batch.asked.lane });
    batch.active = false;
  }

  /** Applies what a change makes due; returns the batches that ended by it. */
  advanceBatch(batch: Batch): string[] {
    return this.advance(batch) ? [batch.asked.id, ...this.startNextInLane(batch.asked.lane)] : [];
  }

  /** True when the batch ended. */
  advance(batch: Batch): boolean {
    if (batch.state !== "running") return false;
    if (batch.cancel !== null) {
      if (!hasLeases(batch)) this.end(batch, "cancelled", null);
      return hasEnded(batch);
    }
    const step = stepOf(batch);
    if (isOverspent(step, batch.sealed)) {
      this.end(batch, "failed", { code: "FAILURE_BUDGET", message: "" });
      return true;
    }
    if (!batch.sealed || pendingOf(step) > 0) return false;
    const rescuable = itemsOf(step).filter(isRescuable);
    if (rescuable.length > 0 && step.passes < step.settings.maxRedrives) {
      step.passes += 1;
      batch.drive += 1;
      this.putBack(step, new Map(rescuable.map((item) => [item, this.now()])), batch.drive);
      const final = step.passes === step.settings.maxRedrives;
      const { drive, step: number } = batch;
      const counted = { step: number, drive, items: rescuable.length, pass: step.passes };
      this.record(batch, "dead_letters.redriven", { ...counted, final, by: "engine" });
      return false;
    }
    if (batch.step < batch.asked.settings.steps.length - 1) return this.#beginNext(batch);
    this.end(batch, null, null);
    return true;
  }

  #beginNext(batch: Batch): boolean {
    this.#recordStep(batch);
    const all = batch.asked.settings.steps;
    while (batch.step < all.length - 1) {
      batch.step += 1;
      const known = batch.steps[batch.step];
      if (known === undefined || !known.sliced || known.settings.carries) {
        const step = known ?? makeStep(all[batch.step]!);
        const fences = batch.steps.map(({ sliceFence }) => sliceFence);
        batch.steps[batch.step] = step;
        step.base = step.chunks.length;
        step.sliced = false;
        step.cursor = null;
        step.sliceFence = Math.max(...fences) + 1;
        batch.sinceDrive = step.slicedDrive + 1;
        batch.state = "slicing";
        this.record(batch, "slicing.started", { step: batch.step });
        return false;
      }
      if (pendingOf(known) > 0) return false;
    }
    this.end(batch, null, null);
    return true;
  }

  #recordStep(batch: Batch): void {
    const step = stepOf(batch);
    const { name } = step.settings;
    this.record(batch, "step.ended", { step: batch.step, name, counts: countStep(batch, step) });
  }

  /** Redrives the dead letters of a step. */
  putBack(step: Step, dueAts: ReadonlyMap<Item, number>, drive: number): void {
    for (const chunk of step.chunks) {
      const chosen = chunk.items.filter((item) => dueAts.has(item));
      if (chosen.length === 0) continue;
      for (const item of chosen) {
        const dueAt = dueAts.get(item)!;
        Object.assign(item, { word: "pending", attempts: 0, deaths: 0, started: false });
        Object.assign(item, { letter: null, dueAt, drive });
      }
      const earliest = Math.min(...chosen.map(({ dueAt }) => dueAt));
      chunk.dueAt = chunk.phase === "waiting" ? Math.min(chunk.dueAt, earliest) : earliest;
      chunk.phase = "waiting";
    }
  }

  /** Without a given state, the items decide the state of the ending. */
  end(batch: Batch, early: Exclude<Ending, "succeeded"> | null, reason: Reason | null): void {
    const from = batch.state;
    const { failed } = countAll(batch);
    const state = early ?? (failed > 0 ? "completed_with_errors" : "succeeded");
    batch.endedAt = this.clock.wallMs();
    batch.reason = reason;
    batch.parked = null;
    this.pauses.delete(`batch/${batch.asked.id}`);
    if (early !== null) {
      for (const chunk of batch.steps.flatMap(({ chunks }) => chunks)) {
        if (chunk.phase === "leased" || chunk.phase === "waiting") chunk.phase = "cancelled";
      }
    }
    for (const { keys } of batch.steps) keys.clear();
    if (from === "slicing") this.record(batch, "slicing.aborted", { ...reason });
    if (from === "running") {
      this.#recordStep(batch);
      this.record(batch, "batch.drained", {});
    }
    batch.state = state;
    const ended = { state, drive: batch.drive, counts: countAll(batch), ...reason };
    this.record(batch, "batch.ended", { ...ended, ...describeAbandoned(batch) });
    this.#release(batch);
    const lane = this.laneOf(batch);
    lane.splice(lane.indexOf(batch), 1);
  }

  now(): number {
    return this.clock.monotonicMs();
  }
}

function isRescuable({ letter }: Item): boolean {
  if (letter === null || letter.discarded !== null) return false;
  return letter.errorClass !== "permanent" && letter.code !== "POISON";
}

function isOverspent(step: Step, planIsComplete: boolean): boolean {
  const { budget } = step.settings;
  const letters = itemsOf(step).flatMap(({ letter }) => (letter === null ? [] : [letter]));
  return Object.entries(budget ?? {}).some(([scope, allowance]) => {
    const failed = letters.filter(({ errorClass }) => scope === "any" || errorClass === scope);
    if ("count" in allowance) return failed.length > allowance.count;
    return planIsComplete && failed.length / itemsOf(step).length > allowance.percent / 100;
  });
}

function describeAbandoned(batch: Batch): object {
  if (batch.cancel === null || batch.abandoned.size === 0) return {};
  const abandoned = [...batch.abandoned].map(([place, items]) => {
    const [step, chunk] = place.split("/").map(Number) as [number, number];
    return { step, chunk, items };
  });
  abandoned.sort((a, b) => a.step - b.step || a.chunk - b.chunk);
  return { abandonedChunks: abandoned.length, abandoned };
}
