/** Leasing, reporting, renewing and sweeping on the reference model. */
import type { ReportResult } from "../../core/chunk.ts";
import { applyOutcomes } from "../../core/counts.ts";
import { getOutcome, PENDING } from "../../core/outcome-map.ts";
import { type ChunkEffect, decideLoss, decideReport, type StoredChunk } from "../../core/report.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  LeaseRef,
  LeaseRequest,
  LeasedChunk,
  Report,
  SweepResult,
  WorkResult,
} from "../../ports/working.ts";
import type { Recorder } from "./records.ts";
import type { Batch, Chunk, State } from "./state.ts";

export class Working {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #recorder: Recorder;

  constructor(state: State, clock: Clock, recorder: Recorder) {
    this.#state = state;
    this.#clock = clock;
    this.#recorder = recorder;
  }

  work(reports: readonly Report[], request: LeaseRequest | null): WorkResult {
    const now = this.#clock.monotonicMs();
    const touched = new Set<Batch>();
    const results = reports.map((report): ReportResult => {
      const chunk = this.#findHeld(report);
      const batch = this.#state.batches.get(report.batch);
      if (chunk === null || batch === undefined) return "lost";
      const effect = decideReport(readStored(chunk), report, now);
      this.#apply(batch, chunk, effect);
      for (const { index, key, value } of effect.results) {
        const item = chunk.start + index;
        batch.results.set(item, { step: report.step, item, key, value });
      }
      touched.add(batch);
      return effect.end;
    });
    const ended = this.#endFinished(touched);
    const leased = request === null ? [] : this.#lease(request, now);
    const nextDueInMs =
      request === null || leased.length > 0 ? null : this.#computeNextDue(request, now);
    return { reports: results, leased, nextDueInMs, ended };
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): LeaseRef[] {
    const until = this.#clock.monotonicMs() + leaseMs;
    return leases.filter((lease) => {
      const chunk = this.#findHeld(lease);
      if (chunk !== null) chunk.leaseUntil = until;
      return chunk === null;
    });
  }

  sweep(): SweepResult {
    const now = this.#clock.monotonicMs();
    const touched = new Set<Batch>();
    let lostLeases = 0;
    for (const batch of this.#state.batches.values()) {
      for (const chunk of batch.chunks) {
        if (chunk.state !== "leased" || chunk.leaseUntil > now) continue;
        lostLeases++;
        chunk.careful = true;
        this.#apply(batch, chunk, decideLoss(readStored(chunk), now));
        touched.add(batch);
      }
    }
    return { lostLeases, ended: [...this.#endFinished(touched), ...this.#expireUnsealed()] };
  }

  #expireUnsealed(): string[] {
    const now = this.#clock.wallMs();
    const expired = [...this.#state.batches.values()].filter(
      (batch) =>
        !batch.sealed &&
        batch.endedAt === null &&
        batch.sealDeadlineAt !== null &&
        batch.sealDeadlineAt <= now,
    );
    for (const batch of expired) {
      this.#recorder.endEarly(batch, "expire", {
        code: "SEAL_DEADLINE",
        message: "its producer did not seal it in time",
      });
    }
    return expired.map((batch) => batch.submission.id);
  }

  /** The chunk, if this lease still holds it: the fence decides, not the clock. */
  #findHeld({ batch, chunk, fence }: LeaseRef): Chunk | null {
    const found = this.#state.batches.get(batch)?.chunks[chunk];
    return found?.state === "leased" && found.fence === fence ? found : null;
  }

  #apply(batch: Batch, chunk: Chunk, effect: ChunkEffect): void {
    batch.counts = applyOutcomes(batch.counts, effect.delta);
    chunk.outcomes = effect.outcomes;
    for (const index of effect.untrack) chunk.tracked.delete(index);
    for (const item of effect.track) {
      chunk.tracked.set(item.index, item);
      if (item.dead) chunk.failedAt.set(item.index, this.#clock.wallMs());
    }
    if (effect.end === "settled") chunk.state = "settled";
    if (effect.end === "yielded") {
      chunk.state = "waiting";
      chunk.dueAt = effect.dueAt;
    }
  }

  #endFinished(batches: Iterable<Batch>): string[] {
    return [...batches]
      .filter((batch) => this.#recorder.endIfFinished(batch))
      .map((batch) => batch.submission.id);
  }

  #lease(request: LeaseRequest, now: number): LeasedChunk[] {
    const leased: LeasedChunk[] = [];
    let items = 0;
    for (const batch of this.#findBatches(request)) {
      for (const chunk of listDue(batch, now)) {
        if (
          leased.length >= request.chunksMax ||
          (leased.length > 0 && items >= request.itemsMax)
        ) {
          return leased;
        }
        chunk.state = "leased";
        chunk.fence++;
        chunk.leaseUntil = now + request.leaseMs;
        items += chunk.end - chunk.start;
        leased.push(describeLease(batch, chunk, now));
      }
    }
    return leased;
  }

  #computeNextDue(request: LeaseRequest, now: number): number | null {
    const dues = this.#findBatches(request).flatMap((batch) =>
      batch.chunks.filter(({ state }) => state === "waiting").map(({ dueAt }) => dueAt - now),
    );
    return dues.length === 0 ? null : Math.max(0, Math.min(...dues));
  }

  #findBatches(request: LeaseRequest): Batch[] {
    return [...this.#state.batches.values()].filter(
      ({ state, submission }) =>
        state === "running" &&
        submission.pipeline === request.pipeline &&
        request.versions.includes(submission.version) &&
        (request.batch === null || request.batch === submission.id),
    );
  }
}

/** Retries first, the longest due of them at the head; then what never ran. */
function listDue(batch: Batch, now: number): Chunk[] {
  const due = batch.chunks
    .filter((chunk) => chunk.state === "waiting" && chunk.dueAt <= now)
    .toSorted((a, b) => a.dueAt - b.dueAt || a.start - b.start);
  return [...due, ...batch.chunks.filter((chunk) => chunk.state === "planned")];
}

function readStored(chunk: Chunk): StoredChunk {
  return {
    items: chunk.end - chunk.start,
    outcomes: chunk.outcomes,
    tracked: [...chunk.tracked.values()],
  };
}

function describeLease(batch: Batch, chunk: Chunk, now: number): LeasedChunk {
  const { start, end, locator, fence, careful } = chunk;
  const unfinished = [...chunk.tracked.values()].filter(
    ({ index }) => getOutcome(chunk.outcomes, index) === PENDING,
  );
  return {
    batch: batch.submission.id,
    step: 0,
    chunk: batch.chunks.indexOf(chunk),
    fence,
    start,
    end,
    locator,
    careful,
    outcomes: new Uint8Array(chunk.outcomes),
    histories: unfinished
      .toSorted((a, b) => a.index - b.index)
      .map(({ index, attempts, deaths, dueAt }) => ({
        index,
        attempts,
        deaths,
        dueInMs: Math.max(0, dueAt - now),
      })),
  };
}
