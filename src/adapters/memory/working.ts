/** Leasing, reporting and renewing on the reference model. */
import { isEnded } from "../../core/batch.ts";
import type { ReportResult } from "../../core/chunk.ts";
import { applyOutcomes } from "../../core/counts.ts";
import { getOutcome, PENDING, SUCCEEDED } from "../../core/outcome-map.ts";
import { decideReport, type ItemContent } from "../../core/report.ts";
import type { ChunkEffect } from "../../core/tracked-item.ts";
import { FIRST_LOOK } from "../../core/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import {
  type ContentClaim,
  type LeaseRef,
  type LeaseRequest,
  type LeasedChunk,
  type Report,
  type Served,
  type Stop,
  type WorkResult,
  describeStop,
} from "../../ports/working.ts";
import { type Life, readStored } from "./life.ts";
import {
  type Batch,
  type Chunk,
  type ContentRow,
  currentStep,
  findPause,
  noteAbandoned,
  type State,
  type Step,
} from "./state.ts";

interface Held {
  readonly batch: Batch;
  readonly step: Step;
  readonly chunk: Chunk;
}

export class Working {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #life: Life;

  constructor(state: State, clock: Clock, life: Life) {
    this.#state = state;
    this.#clock = clock;
    this.#life = life;
  }

  beat(worker: number, serves: readonly Served[], forMs: number): void {
    this.#state.workers.set(worker, { serves, until: this.#clock.monotonicMs() + forMs });
  }

  work(reports: readonly Report[], request: LeaseRequest | null): WorkResult {
    const now = this.#clock.monotonicMs();
    const touched = new Set<Batch>();
    const results = reports.map((report): ReportResult => {
      const held = this.#findHeld(report);
      if (held === null) return "lost";
      this.#report(held, report, now);
      touched.add(held.batch);
      return held.chunk.state === "leased"
        ? "kept"
        : held.chunk.state === "settled"
          ? "settled"
          : "yielded";
    });
    const ended = [...touched].flatMap((batch) => this.#life.goOn(batch));
    const leased = request === null ? [] : this.#lease(request, now);
    const nextDueInMs =
      request === null || leased.length > 0 ? null : this.#computeNextDue(request, now);
    return { reports: results, leased, nextDueInMs, ended };
  }

  #report({ batch, step, chunk }: Held, report: Report, now: number): void {
    const effect = decideReport(readStored(chunk), report, now);
    this.apply(step, chunk, effect);
    // With the batch's drive and not the item's: an item that a rescued one left to this step is
    // in its first drive, and new to the step after it all the same.
    const { drive } = batch;
    for (const { index, key, value } of effect.results) {
      const item = chunk.start + index;
      step.results.set(item, { step: report.step, item, key, value, drive });
    }
    for (const { index, content } of report.contents) {
      const row = this.#state.contents.get(content);
      const mine =
        row?.batch === report.batch && row.step === report.step && row.item === chunk.start + index;
      if (mine && getOutcome(chunk.outcomes, index) === SUCCEEDED) row.final = true;
    }
    if (report.abandoned.length > 0 && batch.cancel !== null) {
      const items = report.abandoned.map((index) => chunk.start + index);
      noteAbandoned(batch, { step: report.step, chunk: report.chunk, items });
    }
  }

  claimContents(lease: LeaseRef, contents: readonly ItemContent[]): ContentClaim[] | null {
    const held = this.#findHeld(lease);
    if (held === null) return null;
    return contents.map(({ index, content }) => {
      const item = held.chunk.start + index;
      const row = this.#state.contents.get(content);
      if (row?.final === true) return "done";
      const mine = row?.batch === lease.batch && row.step === lease.step && row.item === item;
      if (row !== undefined && !mine && this.#isUnderWay(row)) return "held";
      this.#state.contents.set(content, { ...lease, item, final: false });
      return "claimed";
    });
  }

  /** The item of a claim is leased still, and has no outcome. */
  #isUnderWay(row: ContentRow): boolean {
    const chunk = this.#findHeld(row)?.chunk;
    if (chunk === undefined) return false;
    return getOutcome(chunk.outcomes, row.item - chunk.start) === PENDING;
  }

  readStops(ids: readonly string[]): Stop[] {
    return ids.flatMap((id): Stop[] => {
      const batch = this.#state.batches.get(id);
      if (batch === undefined || isEnded(batch.state)) {
        return [{ batch: id, kind: "over", mode: "now" }];
      }
      const pause = findPause(this.#state, batch);
      return describeStop(id, batch.cancel?.mode ?? null, pause?.mode ?? null);
    });
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): LeaseRef[] {
    const until = this.#clock.monotonicMs() + leaseMs;
    return leases.filter((lease) => {
      const held = this.#findHeld(lease);
      // That of a cancelled batch runs out, so that the end of a cancel has a bound.
      if (held !== null && held.batch.cancel?.mode !== "now") held.chunk.leaseUntil = until;
      return held === null;
    });
  }

  /** The chunk, if this lease still holds it: the fence decides, not the clock. */
  #findHeld(ref: LeaseRef): Held | null {
    const batch = this.#state.batches.get(ref.batch);
    const step = batch?.steps[ref.step];
    const chunk = step?.chunks[ref.chunk];
    if (batch === undefined || step === undefined || chunk === undefined) return null;
    return chunk.state === "leased" && chunk.fence === ref.fence ? { batch, step, chunk } : null;
  }

  /** Writes what a report, a loss or the end of a watch makes of a chunk. */
  apply(step: Step, chunk: Chunk, effect: ChunkEffect): void {
    step.counts = applyOutcomes(step.counts, effect.delta);
    step.tally = {
      permanent: step.tally.permanent + effect.tally.permanent,
      transient: step.tally.transient + effect.tally.transient,
      unexpected: step.tally.unexpected + effect.tally.unexpected,
    };
    chunk.outcomes = effect.outcomes;
    chunk.losses = effect.losses;
    for (const index of effect.untrack) chunk.tracked.delete(index);
    for (const item of effect.track) {
      chunk.tracked.set(item.index, item);
      if (item.dead) chunk.failedAt.set(item.index, this.#clock.wallMs());
    }
    if (effect.end === "settled") chunk.state = "settled";
    if (effect.end === "yielded") {
      chunk.state = "waiting";
      chunk.dueAt = effect.dueAt;
      const { rest } = effect;
      chunk.rest = rest === null ? null : { holdUp: rest.holdUp, key: rest.key };
    }
  }

  #lease(request: LeaseRequest, now: number): LeasedChunk[] {
    const leased: LeasedChunk[] = [];
    let items = 0;
    for (const batch of this.#findBatches(request)) {
      const step = currentStep(batch);
      for (const chunk of listDue(step, now)) {
        if (
          leased.length >= request.chunksMax ||
          (leased.length > 0 && items >= request.itemsMax)
        ) {
          return leased;
        }
        chunk.state = "leased";
        chunk.fence++;
        chunk.worker = request.worker;
        chunk.leaseUntil = now + request.leaseMs;
        // What somebody takes up has not stalled, whatever the watch saw before.
        step.watch = FIRST_LOOK;
        items += chunk.end - chunk.start;
        leased.push(describeLease(batch, chunk, now));
      }
    }
    return leased;
  }

  #computeNextDue(request: LeaseRequest, now: number): number | null {
    const dues = this.#findBatches(request).flatMap((batch) =>
      currentStep(batch)
        .chunks.filter(({ state }) => state === "waiting")
        .map(({ dueAt }) => dueAt - now),
    );
    return dues.length === 0 ? null : Math.max(0, Math.min(...dues));
  }

  #findBatches(request: LeaseRequest): Batch[] {
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

/** Whether anything of the batch may be leased. */
export function mayRun(state: State, batch: Batch): boolean {
  return batch.state === "running" && batch.cancel === null && findPause(state, batch) === null;
}

/** Retries first, the longest due of them at the head; then what never ran. */
export function listDue(step: Step, now: number): Chunk[] {
  const due = step.chunks
    .filter((chunk) => chunk.state === "waiting" && chunk.dueAt <= now)
    .toSorted((a, b) => a.dueAt - b.dueAt || a.start - b.start);
  const fresh = step.chunks
    .slice(0, step.canaryChunks ?? undefined)
    .filter((chunk) => chunk.state === "planned");
  return [...due, ...fresh];
}

function describeLease(batch: Batch, chunk: Chunk, now: number): LeasedChunk {
  const { start, end, locator, fence, careful } = chunk;
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
    careful,
    final: step.passes >= maxRedrives,
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
