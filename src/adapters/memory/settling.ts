/** Leasing, reporting and renewing on the reference model. */
import { isEnded } from "../../core/batch/batch.ts";
import type { ReportResult } from "../../core/batch/chunk.ts";
import { applyOutcomes } from "../../core/batch/counts.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { getOutcome, PENDING, SUCCEEDED } from "../../core/items/outcome-map.ts";
import { countTried, decideReport, type ItemContent } from "../../core/items/report.ts";
import type { ChunkEffect } from "../../core/items/tracked-item.ts";
import type { Clock } from "../../ports/clock.ts";
import {
  type ContentClaim,
  type LeaseRef,
  type LeaseRequest,
  type RenewResult,
  type Report,
  type Served,
  type Stop,
  type WorkResult,
  describeStop,
} from "../../ports/store/worker-store.ts";
import { findPlace, type Ledger } from "./ledger.ts";
import type { Leasing } from "./leasing.ts";
import { type BatchLifecycle, readStored } from "./batch-lifecycle.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import type { FairShares, LeaseUsage } from "./fair-shares.ts";
import type { Topics } from "./topics.ts";
import {
  type Batch,
  type Chunk,
  type ContentRow,
  findPause,
  noteAbandoned,
  type State,
  type Step,
} from "./state.ts";

/** Called before any change, as in a transaction. */
function refuseStatements(reports: readonly Report[]): void {
  if (reports.every(({ commits }) => commits.length === 0)) return;
  throw new SluiceError(
    "STORE_UNSUPPORTED",
    "a memory store has no SQL, so commitWith cannot run statements",
    { kind: "sql", hint: "Open the engine on a SQLite file or a PostgreSQL database." },
  );
}

interface Held {
  readonly batch: Batch;
  readonly step: Step;
  readonly chunk: Chunk;
}

export interface WorkingParts {
  readonly state: State;
  readonly clock: Clock;
  readonly lifecycle: BatchLifecycle;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
  readonly leasing: Leasing;
  readonly topics: Topics;
  readonly ledger: Ledger;
}

export class Settling {
  readonly #parts: WorkingParts;
  readonly #state: State;
  readonly #clock: Clock;
  readonly #lifecycle: BatchLifecycle;
  /** The last act released slots of a capped scope. */
  hasFreed = false;

  constructor(parts: WorkingParts) {
    this.#parts = parts;
    this.#state = parts.state;
    this.#clock = parts.clock;
    this.#lifecycle = parts.lifecycle;
  }

  beat(worker: number, serves: readonly Served[], forMs: number): void {
    this.#state.workers.set(worker, {
      serves: [...serves],
      until: this.#clock.monotonicMs() + forMs,
    });
  }

  work(reports: readonly Report[], request: LeaseRequest | null): WorkResult {
    const now = this.#clock.monotonicMs();
    const touched = new Set<Batch>();
    const leaseUsage = this.#parts.shares.beginUses();
    refuseStatements(reports);
    const results = reports.map((report): ReportResult => {
      const held = this.#findHeld(report);
      if (held === null) return "lost";
      this.#report(held, report, now, leaseUsage);
      touched.add(held.batch);
      return held.chunk.state === "leased"
        ? "kept"
        : held.chunk.state === "settled"
          ? "settled"
          : "yielded";
    });
    leaseUsage.apply();
    const ended = [...touched].flatMap((batch) => this.#lifecycle.advanceBatch(batch));
    this.hasFreed = false;
    return { reports: results, ended, ...this.#lease(request, now) };
  }

  #lease(
    request: LeaseRequest | null,
    now: number,
  ): Pick<WorkResult, "leased" | "nextDueInMs" | "permits"> {
    if (request === null) return { leased: [], nextDueInMs: null, permits: null };
    const { leasing, permits } = this.#parts;
    const leased = permits.change(request.worker, () => {
      const lowered = permits.keep(request, now);
      const found = leasing.lease(request, now);
      if (found.length > 0) permits.prolong(request, now);
      this.hasFreed = permits.free(request) || lowered;
      return found;
    });
    return {
      leased,
      nextDueInMs: leased.length > 0 ? null : leasing.computeNextDue(request, now),
      permits: permits.list(request.worker, now),
    };
  }

  #report({ batch, step, chunk }: Held, report: Report, now: number, leaseUsage: LeaseUsage): void {
    const stored = readStored(chunk);
    const effect = decideReport(stored, report, now);
    if (report.ledger !== undefined) {
      const { blocks } = report.ledger;
      const place = findPlace(batch, step, chunk, chunk.worker);
      this.#parts.ledger.write(batch, place, { stored, effect, cause: "reported", blocks });
    }
    this.apply(batch, step, chunk, effect);
    leaseUsage.add(batch, step, chunk, {
      busyMs: report.busyMs,
      ends: effect.end !== "kept",
      items: chunk.end - chunk.start,
      tried: countTried(effect, report),
    });
    // With the batch's drive and not the item's: an item that a rescued item produced for this step
    // is in its first drive, but is new to the next step.
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

  /** The claim's item is still leased and has no outcome. */
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

  renew(worker: number, leases: readonly LeaseRef[], leaseMs: number): RenewResult {
    const now = this.#clock.monotonicMs();
    const until = now + leaseMs;
    const batches = new Set<Batch>();
    const lost = leases.filter((lease) => {
      const held = this.#findHeld(lease);
      if (held?.chunk.worker === worker) batches.add(held.batch);
      // The lease of a cancelled batch is not extended, so that a cancel ends within a bounded
      // time.
      if (held !== null && held.batch.cancel?.mode !== "now") held.chunk.leaseUntil = until;
      return held === null;
    });
    const { permits } = this.#parts;
    permits.change(worker, () => permits.renew(worker, [...batches], until, now));
    return { lost, permits: permits.list(worker, now) };
  }

  /** The chunk, if this lease still holds it: the fence decides, not the clock. */
  #findHeld(ref: LeaseRef): Held | null {
    const batch = this.#state.batches.get(ref.batch);
    const step = batch?.steps[ref.step];
    const chunk = step?.chunks[ref.chunk];
    if (batch === undefined || step === undefined || chunk === undefined) return null;
    return chunk.state === "leased" && chunk.fence === ref.fence ? { batch, step, chunk } : null;
  }

  /** Applies the effect of a report, a loss or the end of a watch to a chunk. */
  apply(batch: Batch, step: Step, chunk: Chunk, effect: ChunkEffect): void {
    this.#parts.topics.write(batch, step, chunk, effect);
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
      const { limitWait } = effect;
      chunk.limitWait =
        limitWait === null ? null : { waitReason: limitWait.waitReason, key: limitWait.key };
    }
  }
}
