/** What operators do to batches of the reference model. */
import { type Act, describeAct, isEnded } from "../../core/batch/batch.ts";
import { reviveCancelled } from "../../core/batch/counts.ts";
import type { LanePolicy } from "../../core/batch/lane.ts";
import { LEDGER_SIGNER, readGroupName } from "../../core/events/reader-name.ts";
import { computeRedriveDueAt, decideRevival, matchesDeadLetter } from "../../core/items/redrive.ts";
import { decidePruning } from "../../core/batch/retention.ts";
import { FIRST_LOOK } from "../../core/batch/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ActResult } from "../../ports/store/conductor-store.ts";
import type {
  CancelRequest,
  DiscardRequest,
  EditRequest,
  PauseRequest,
  PauseScope,
  PrunePolicy,
  PruneResult,
  RedriveRefusal,
  RedriveRequest,
  RedriveResult,
} from "../../ports/store/operator-store.ts";
import type { Lanes } from "./lanes.ts";
import { type Letter, type BatchLifecycle, listLetters, readStored } from "./batch-lifecycle.ts";
import type { RecordLog } from "./records.ts";
import {
  type Batch,
  countAll,
  currentStep,
  hasLeases,
  nameLimit,
  namePause,
  type State,
  type Step,
  takeSnapshot,
} from "./state.ts";
import type { Topics } from "./topics.ts";

export interface OperatingParts {
  readonly state: State;
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly lifecycle: BatchLifecycle;
  readonly topics: Topics;
}

export class OperatorActs {
  readonly #parts: OperatingParts;

  constructor(parts: OperatingParts) {
    this.#parts = parts;
  }

  cancel(batch: Batch, { mode, by, why }: CancelRequest): ActResult {
    const { state, clock, records, lifecycle } = this.#parts;
    if (isEnded(batch.state)) return { kind: "moved_on", batch: takeSnapshot(state, batch) };
    // `now` overrides `drain`; nothing else changes a cancel that is under way.
    const first = batch.cancel === null;
    if (first || (batch.cancel?.mode === "drain" && mode === "now")) {
      batch.cancel = { mode, by, why, requestedAt: clock.wallMs() };
      records.record(batch, {
        type: "batch.cancel_requested",
        data: { mode, ...describeAct({ by, why }) },
      });
    }
    if (!hasLeases(batch)) lifecycle.endEarly(batch, "cancel", null);
    return { kind: "done", batch: takeSnapshot(state, batch) };
  }

  pause(request: PauseRequest): boolean {
    const { state, records } = this.#parts;
    const name = namePause(request);
    const over = request.scope === "batch" && this.#listUnder(request).length === 0;
    if (over || state.pauses.has(name)) return false;
    const { scope, mode, by, why } = request;
    state.pauses.set(name, { scope, name: request.name, mode, by, why });
    for (const batch of this.#listUnder(request)) {
      records.record(batch, {
        type: "batch.paused",
        data: { scope, mode, ...describeAct(request) },
      });
    }
    return true;
  }

  resume(scope: PauseScope, act: Act): boolean {
    const { state, records, lifecycle } = this.#parts;
    const paused = state.pauses.delete(namePause(scope));
    const under = this.#listUnder(scope);
    const parked = scope.scope === "batch" && under.some((batch) => batch.parked !== null);
    if (!paused && !parked) return false;
    for (const batch of under) {
      if (scope.scope === "batch") batch.parked = null;
      batch.activityAt = this.#parts.clock.monotonicMs();
      currentStep(batch).watch = FIRST_LOOK;
      records.record(batch, {
        type: "batch.resumed",
        data: { scope: scope.scope, ...describeAct(act) },
      });
    }
    // Lanes without a batch that can run may have one now.
    for (const batch of this.#listWaitingUnder(scope))
      lifecycle.startNextInLane(batch.submission.lane);
    return true;
  }

  /** The batches that a pause of this scope stops: one for each lane. */
  #listUnder(scope: PauseScope): Batch[] {
    return this.#listWaitingUnder(scope).filter((batch) => scope.scope === "batch" || batch.active);
  }

  #listWaitingUnder({ scope, name }: PauseScope): Batch[] {
    return [...this.#parts.state.batches.values()].filter(({ state, submission }) => {
      if (isEnded(state)) return false;
      if (scope === "batch") return submission.id === name;
      return (scope === "lane" ? submission.lane : submission.pipeline) === name;
    });
  }

  setLanePolicy(lane: string, policy: LanePolicy): void {
    this.#parts.state.lanePolicies.set(lane, policy);
    this.#parts.lifecycle.startNextInLane(lane);
  }

  redrive(batch: Batch, request: RedriveRequest): RedriveResult {
    const { state, clock, records, lifecycle } = this.#parts;
    const refused = (why: RedriveRefusal): RedriveResult => ({
      kind: "refused",
      batch: takeSnapshot(state, batch),
      why,
    });
    const whyNot = refuseRedrive(batch, request);
    if (whyNot !== null) return refused(whyNot);
    const matching = this.#listMatching(batch, request);
    const free = matching.filter(({ chunk }) => chunk.state !== "leased");
    const chosen = free.slice(0, request.ceiling);
    const ended = isEnded(batch.state);
    const revived = ended ? countAll(batch).cancelled : 0;
    if (matching.length + revived === 0) return refused("no_dead_letters");
    if (!ended && chosen.some(({ number }) => number !== batch.step))
      return refused("step_is_over");
    const done = {
      kind: "done" as const,
      redriven: chosen.length,
      revived,
      busy: matching.length - free.length,
      left: free.length - chosen.length,
    };
    if (request.dryRun || chosen.length + revived === 0) {
      return { ...done, batch: takeSnapshot(state, batch) };
    }
    const now = clock.monotonicMs();
    if (ended) revive(batch, now);
    const ordered = chosen.map((letter, nth) => ({
      ...letter,
      dueAt: computeRedriveDueAt(now, nth, request.perSecond),
    }));
    const drive = batch.drive + 1;
    for (const [step, letters] of Map.groupBy(ordered, (letter) => letter.step)) {
      batch.drive = drive - 1;
      lifecycle.redrive(batch, step, letters);
    }
    batch.drive = drive;
    records.record(batch, {
      type: "dead_letters.redriven",
      data: { drive, items: chosen.length, revived, ...describeAct(request) },
    });
    if (ended) this.#reopen(batch, Math.min(batch.step, ...chosen.map(({ number }) => number)));
    return { ...done, batch: takeSnapshot(state, batch) };
  }

  #listMatching(
    batch: Batch,
    { filter }: RedriveRequest,
  ): (Letter & { readonly step: Step; readonly number: number })[] {
    return batch.steps.flatMap((step, number) =>
      listLetters(step)
        .filter(({ chunk, item: { index, key, error } }) => {
          const item = chunk.start + index;
          if (error === null || step.discarded.has(item)) return false;
          return matchesDeadLetter(filter, { step: number, item, key, ...error });
        })
        .map((letter) => ({ ...letter, step, number })),
    );
  }

  /** To the head of its lane's queue. */
  #reopen(batch: Batch, step: number): void {
    const { clock, records, lanes, lifecycle } = this.#parts;
    for (const one of batch.steps) {
      one.watch = FIRST_LOOK;
    }
    records.move(batch, "reopen");
    batch.step = step;
    batch.place = lanes.computeFront(batch);
    batch.endedAt = null;
    batch.reason = null;
    batch.cancel = null;
    batch.abandoned = [];
    batch.unsentAfter = null;
    batch.deadlineAt = null;
    batch.activityAt = clock.monotonicMs();
    records.record(batch, { type: "batch.reopened", data: { step, drive: batch.drive } });
    if (!batch.sealed) {
      // Its seal deadline has passed: it runs the items it has, or it would expire again at once.
      batch.sealed = true;
      const { counts, chunks } = currentStep(batch);
      const data = { items: counts.planned, chunks: chunks.length };
      records.record(batch, { type: "batch.sealed", data });
    }
    lifecycle.startNextInLane(batch.submission.lane);
  }

  editDeadLetter(batch: Batch, { step: number, item, value, by, why }: EditRequest): boolean {
    const step = batch.steps[number];
    const letter = step === undefined ? undefined : findLetter(step, item);
    if (step === undefined || letter === undefined || batch.pruned) return false;
    step.overrides.set(item, value);
    // Checkpoints of the old payload say nothing about the new one.
    letter.chunk.tracked.set(letter.item.index, { ...letter.item, checkpoint: null });
    this.#parts.records.record(batch, {
      type: "dead_letter.edited",
      data: { step: number, item, ...describeAct({ by, why }) },
    });
    return true;
  }

  discardDeadLetters(batch: Batch, { filter, by, why }: DiscardRequest): number {
    let discarded = 0;
    for (const [number, step] of batch.steps.entries()) {
      for (const { chunk, item: letter } of listLetters(step)) {
        const item = chunk.start + letter.index;
        if (letter.error === null || step.discarded.has(item)) continue;
        const facts = { step: number, item, key: letter.key, ...letter.error };
        if (!matchesDeadLetter(filter, facts)) continue;
        step.discarded.set(item, { by, why });
        discarded++;
      }
    }
    if (discarded > 0) {
      this.#parts.records.record(batch, {
        type: "dead_letters.discarded",
        data: { items: discarded, ...describeAct({ by, why }) },
      });
    }
    return discarded;
  }

  prune(policy: PrunePolicy): PruneResult {
    const { scratchAgeMs, batch: only, dryRun } = policy;
    const { state, clock, topics } = this.#parts;
    const now = clock.wallMs();
    const readers = [...state.positions].filter(
      ([reader]) => readGroupName(reader) === null && reader !== LEDGER_SIGNER,
    );
    const reached = Math.min(...readers.map(([, position]) => position));
    let scratched = 0;
    let removed = 0;
    let owed = 0;
    for (const [id, batch] of state.batches) {
      const { endedAt } = batch;
      if (endedAt === null || (only !== undefined && id !== only)) continue;
      const own = only === undefined ? (batch.submission.settings.retention ?? {}) : {};
      const going = decidePruning(now - endedAt, own, policy);
      if (going === "whole") {
        const isOwed =
          state.records.some((one) => one.batch === id && one.position > reached) ||
          state.undelivered.some(({ batch: of, reader }) => of === id && reader !== LEDGER_SIGNER);
        if (isOwed) owed++;
        else removed++;
        if (isOwed || dryRun) continue;
        state.batches.delete(id);
        state.limits.delete(nameLimit({ kind: "cap", scope: "batch", name: id }));
        this.#dropContents(id, false);
        const kept = state.records.filter((one) => one.batch !== id);
        state.records.splice(0, state.records.length, ...kept);
        const undelivered = state.undelivered.filter((one) => one.batch !== id);
        state.undelivered.splice(0, state.undelivered.length, ...undelivered);
      } else if (going === "scratch" && !batch.pruned) {
        scratched++;
        if (dryRun) continue;
        removeScratch(batch);
        this.#dropContents(id, true);
      }
    }
    const isAll = scratchAgeMs !== null && only === undefined;
    const messages = isAll ? topics.prune(now - scratchAgeMs, dryRun) : 0;
    return { scratched, removed, messages, owed, more: false };
  }

  #dropContents(batch: string, onlyClaims: boolean): void {
    const { contents } = this.#parts.state;
    for (const [content, row] of contents) {
      if (row.batch === batch && !(onlyClaims && row.final)) contents.delete(content);
    }
  }
}

/** Items that an early end cancelled are pending again. */
function revive(batch: Batch, now: number): void {
  for (const step of batch.steps) {
    step.counts = reviveCancelled(step.counts);
    for (const chunk of step.chunks) {
      if (chunk.state !== "cancelled") continue;
      const { track, untrack, dueAt } = decideRevival(readStored(chunk), now);
      for (const index of untrack) chunk.tracked.delete(index);
      for (const item of track) chunk.tracked.set(item.index, item);
      chunk.state = "waiting";
      chunk.limitWait = null;
      chunk.dueAt = dueAt;
    }
  }
}

function refuseRedrive(batch: Batch, { withCancelled }: RedriveRequest): RedriveRefusal | null {
  if (batch.pruned) return "pruned";
  if (isEnded(batch.state)) {
    if (batch.state === "succeeded" || batch.state === "completed_with_errors") return null;
    if (!currentStep(batch).sliced) return "never_planned";
    return withCancelled ? null : "stopped_early";
  }
  if (batch.cancel !== null) return "cancelling";
  return batch.state === "running" || batch.state === "ready" ? null : "not_running";
}

function findLetter(step: Step, item: number): Letter | undefined {
  return listLetters(step).find(({ chunk, item: { index } }) => chunk.start + index === item);
}

/** Removes data that only a redrive would need. */
function removeScratch(batch: Batch): void {
  batch.pruned = true;
  for (const step of batch.steps) {
    step.keys.clear();
    step.overrides.clear();
    for (const chunk of step.chunks) {
      chunk.manifest = null;
      for (const [index, item] of chunk.tracked) {
        if (item.dead) chunk.tracked.set(index, { ...item, checkpoint: null });
        else chunk.tracked.delete(index);
      }
    }
  }
}
