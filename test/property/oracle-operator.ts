/** What operators' acts must answer and do, according to the oracle. */
import type { Act } from "../../src/core/batch/batch.ts";
import type { ActResult } from "../../src/ports/store/conductor-store.ts";
import type {
  CancelRequest,
  DiscardRequest,
  LaneMove,
  PauseRequest,
  PauseScope,
  RedriveRefusal,
  RedriveRequest,
  RedriveResult,
} from "../../src/ports/store/operator-store.ts";
import type { DeadLetter } from "../../src/ports/store/query-store.ts";
import type { Stop } from "../../src/ports/store/worker-store.ts";
import { Oracle } from "./oracle.ts";
import {
  type Batch,
  type Chunk,
  countAll,
  hasEnded,
  hasLeases,
  isKnown,
  type Item,
  itemsOf,
  type Step,
  stepOf,
} from "./oracle-batch.ts";

const describe = ({ by, why }: Act): object => (why === null ? { by } : { by, why });

interface Found {
  readonly at: number;
  readonly step: Step;
  readonly chunk: Chunk;
  readonly item: Item;
}

export class OperatedOracle extends Oracle {
  cancel(id: string, { mode, by, why }: CancelRequest): ActResult {
    const batch = this.find(id);
    if (hasEnded(batch)) return this.movedOn(batch);
    if (batch.cancel === null || (batch.cancel.mode === "drain" && mode === "now")) {
      batch.cancel = { mode, by, why, requestedAt: this.clock.wallMs() };
      this.record(batch, "batch.cancel_requested", { mode, ...describe({ by, why }) });
    }
    if (!hasLeases(batch)) {
      this.end(batch, "cancelled", null);
      this.startNextInLane(batch.asked.lane);
    }
    return this.done(batch);
  }

  pause(request: PauseRequest): boolean {
    const { scope, name, mode, by, why } = request;
    const under = this.#listUnder(request).filter((batch) => scope === "batch" || batch.active);
    if (scope === "batch" && under.length === 0) return false;
    if (this.pauses.has(`${scope}/${name}`)) return false;
    this.pauses.set(`${scope}/${name}`, { scope, name, mode, by, why });
    for (const batch of under)
      this.record(batch, "batch.paused", { scope, mode, ...describe(request) });
    return true;
  }

  resume(request: PauseScope, act: Act): boolean {
    const { scope, name } = request;
    const paused = this.pauses.delete(`${scope}/${name}`);
    const all = this.#listUnder(request);
    const parked = scope === "batch" && all.some((batch) => batch.parked !== null);
    if (!paused && !parked) return false;
    for (const batch of all.filter(({ active }) => scope === "batch" || active)) {
      batch.parked = null;
      this.record(batch, "batch.resumed", { scope, ...describe(act) });
    }
    for (const batch of all) this.startNextInLane(batch.asked.lane);
    return true;
  }

  #listUnder({ scope, name }: PauseScope): Batch[] {
    const nameOf = ({ asked }: Batch): string =>
      ({ batch: asked.id, lane: asked.lane, pipeline: asked.pipeline })[scope];
    return this.batches.filter((batch) => !hasEnded(batch) && nameOf(batch) === name);
  }

  setLanePolicy(lane: string, policy: "block" | "skip" | "park"): void {
    this.policies.set(lane, policy);
    this.startNextInLane(lane);
  }

  moveInLane(id: string, move: LaneMove, act: Act): ActResult {
    const batch = this.find(id);
    const waiting = this.waitingIn(batch.asked.lane);
    const other = "to" in move ? null : waiting.find(({ asked }) => asked.id === move.before);
    if (!waiting.includes(batch) || other === undefined || other === batch) {
      return this.movedOn(batch);
    }
    const lane = this.laneOf(batch);
    lane.splice(lane.indexOf(batch), 1);
    if (other !== null) lane.splice(lane.indexOf(other), 0, batch);
    else if ("to" in move && move.to === "front") lane.unshift(batch);
    else lane.push(batch);
    this.record(batch, "batch.moved", { ...move, ...describe(act) });
    return this.done(batch);
  }

  redrive(id: string, request: RedriveRequest): RedriveResult {
    const batch = this.find(id);
    const refuse = (why: RedriveRefusal): RedriveResult => ({
      kind: "refused",
      batch: this.describe(batch),
      why,
    });
    const refusal = whyNot(batch, request.withCancelled);
    if (refusal !== null) return refuse(refusal);
    const matching = this.#findLetters(batch, request.filter).filter(
      ({ item }) => item.letter?.discarded === null,
    );
    const free = matching.filter(({ chunk }) => chunk.phase !== "leased");
    const chosen = free.slice(0, request.ceiling);
    const revived = hasEnded(batch) ? countAll(batch).cancelled : 0;
    if (matching.length + revived === 0) return refuse("no_dead_letters");
    if (!hasEnded(batch) && chosen.some(({ at }) => at !== batch.step)) {
      return refuse("step_is_over");
    }
    const counted = {
      kind: "done",
      redriven: chosen.length,
      revived,
      busy: matching.length - free.length,
      left: free.length - chosen.length,
    } as const;
    if (!request.dryRun && chosen.length + revived > 0) {
      batch.drive += 1;
      if (hasEnded(batch)) this.#revive(batch);
      const dueAts = new Map(
        chosen.map(({ item }, nth) => [item, this.now() + spread(nth, request.perSecond)]),
      );
      for (const step of batch.steps) this.putBack(step, dueAts, batch.drive);
      const data = { drive: batch.drive, items: chosen.length, revived, ...describe(request) };
      this.record(batch, "dead_letters.redriven", data);
      if (hasEnded(batch))
        this.#reopen(batch, Math.min(batch.step, ...chosen.map((one) => one.at)));
    }
    return { ...counted, batch: this.describe(batch) };
  }

  /**
   * Items that an early end cancelled wait again, in their back-off, and none becomes a suspect by
   * that.
   */
  #revive(batch: Batch): void {
    for (const chunk of batch.steps.flatMap(({ chunks }) => chunks)) {
      for (const item of chunk.items) item.started = false;
      if (chunk.phase !== "cancelled") continue;
      const left = chunk.items.filter(({ word }) => word === "pending");
      const fresh = left.some((item) => !isKnown(item));
      chunk.phase = "waiting";
      chunk.dueAt = fresh ? this.now() : Math.min(...left.map(({ dueAt }) => dueAt));
    }
  }

  #reopen(batch: Batch, step: number): void {
    batch.state = "ready";
    Object.assign(batch, { step, endedAt: null, reason: null, cancel: null, deadlineAt: null });
    batch.abandoned.clear();
    this.laneOf(batch).unshift(batch);
    this.record(batch, "batch.reopened", { step, drive: batch.drive });
    if (!batch.sealed) {
      batch.sealed = true;
      const { length: items } = itemsOf(stepOf(batch));
      this.record(batch, "batch.sealed", { items, chunks: stepOf(batch).chunks.length });
    }
    this.startNextInLane(batch.asked.lane);
  }

  discard(id: string, { filter, by, why }: DiscardRequest): number {
    const batch = this.find(id);
    const fresh = this.#findLetters(batch, filter).filter(
      ({ item }) => item.letter?.discarded === null,
    );
    for (const { item } of fresh) item.letter = { ...item.letter!, discarded: { by, why } };
    if (fresh.length > 0) {
      this.record(batch, "dead_letters.discarded", {
        items: fresh.length,
        ...describe({ by, why }),
      });
    }
    return fresh.length;
  }

  #findLetters(batch: Batch, filter: RedriveRequest["filter"]): Found[] {
    return batch.steps.flatMap((step, at) =>
      step.chunks.flatMap((chunk) =>
        chunk.items
          .filter(({ letter }) => letter !== null && fits(letter, filter))
          .map((item) => ({ at, step, chunk, item })),
      ),
    );
  }

  readStops(ids: readonly string[]): Stop[] {
    return ids.flatMap((id): Stop[] => {
      const batch = this.find(id);
      if (hasEnded(batch)) return [{ batch: id, kind: "over", mode: "now" }];
      const pause = this.findPause(batch);
      const modes = [batch.cancel?.mode, pause?.mode].filter((mode) => mode !== undefined);
      if (modes.length === 0) return [];
      const mode = modes.includes("now") ? "now" : "drain";
      return [{ batch: id, kind: batch.cancel === null ? "pause" : "cancel", mode }];
    });
  }
}

function whyNot(batch: Batch, withCancelled: boolean): RedriveRefusal | null {
  switch (batch.state) {
    case "succeeded":
    case "completed_with_errors":
      return null;
    case "failed":
    case "cancelled":
    case "expired":
      if (!stepOf(batch).sliced) return "never_planned";
      return withCancelled ? null : "stopped_early";
    case "running":
    case "ready":
      return batch.cancel === null ? null : "cancelling";
    default:
      return batch.cancel === null ? "not_running" : "cancelling";
  }
}

function fits(letter: DeadLetter, filter: RedriveRequest["filter"]): boolean {
  return (
    (filter.step ?? letter.step) === letter.step &&
    (filter.items?.includes(letter.item) ?? true) &&
    (filter.classes?.includes(letter.errorClass) ?? true) &&
    (filter.codes?.includes(letter.code) ?? true) &&
    (filter.keys?.some((key) => key === letter.key) ?? true)
  );
}

const spread = (nth: number, perSecond: number | null): number =>
  perSecond === null ? 0 : Math.floor((nth * 1_000) / perSecond);
