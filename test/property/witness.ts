/**
 * Watches what the stores answer and holds it to the promises, without predicting anything: whatever
 * was acknowledged stays true, and nobody but the newest holder changes anything.
 */
import assert from "node:assert/strict";
import type { BatchSnapshot, PlanPart, PlanResult } from "../../src/ports/conducting.ts";
import type { DeadLetter, Recount, StoredResult } from "../../src/ports/reading.ts";
import type { ChunkRef, LeasedChunk, LeaseRef, Report } from "../../src/ports/working.ts";
import { toWords, type Word } from "../support/outcome-words.ts";

/** Everything that an observer sees of one batch. */
export interface BatchView {
  readonly snapshot: BatchSnapshot;
  readonly recount: Recount;
  readonly results: readonly StoredResult[];
  readonly letters: readonly DeadLetter[];
  readonly records: readonly { readonly type: string; readonly data: object }[];
}

interface Holder {
  readonly fence: number;
  readonly start: number;
  readonly items: number;
  until: number;
  /** Items whose start it wrote and whose end it did not. */
  started: readonly number[];
  /** Given back, settled, swept up, or its batch has ended. */
  over: boolean;
}

/** What is known of a batch from acknowledgements alone. */
interface Known {
  readonly words: Map<number, Word>;
  readonly results: Map<number, string>;
  /** Attempts that were reported, and those that ended with their worker. */
  readonly attempts: Map<number, number>;
  /** Chunks whose lease was lost at least once. */
  readonly lost: Set<string>;
  /** How often an item was running when its worker was lost, and whether it was alone the last time. */
  readonly losses: Map<number, { times: number; alone: boolean }>;
  readonly parts: Map<string, number>;
  ended: BatchView | null;
}

const placeOf = ({ batch, chunk }: ChunkRef): string => `${batch}/${chunk}`;

export class Witness {
  readonly #known = new Map<string, Known>();
  readonly #holders = new Map<string, Holder>();
  /** Handler runs, and how often one had to be repeated; for the summary. */
  runs = 0;

  #of(batch: string): Known {
    let known = this.#known.get(batch);
    if (known === undefined) {
      known = {
        words: new Map(),
        results: new Map(),
        attempts: new Map(),
        lost: new Set(),
        losses: new Map(),
        parts: new Map(),
        ended: null,
      };
      this.#known.set(batch, known);
    }
    return known;
  }

  seePlan({ batch, part, chunks }: PlanPart, answer: PlanResult): void {
    if (answer.kind !== "planned") return;
    const items = chunks.reduce((sum, chunk) => sum + chunk.items, 0);
    this.#of(batch).parts.set(part, items);
  }

  seeAfresh(batch: string): void {
    this.#of(batch).parts.clear();
  }

  /** Only unfinished items are handed out, only when due, and only to one holder at a time. */
  seeLease(lease: LeasedChunk, now: number, leaseMs: number): void {
    const known = this.#of(lease.batch);
    const place = placeOf(lease);
    const before = this.#holders.get(place);
    assert(known.ended === null, `${place} was leased after its batch had ended`);
    assert(before === undefined || before.over, `${place} was leased while somebody held it`);
    assert(lease.fence > (before?.fence ?? 0), `the fence of ${place} did not rise`);
    const { fence, start, end } = lease;
    const until = now + leaseMs;
    this.#holders.set(place, { fence, start, items: end - start, until, started: [], over: false });

    const words = toWords(lease.outcomes, lease.end - lease.start);
    const waits = new Set<number>();
    const remembered = new Map<number, number>();
    assert.equal(lease.careful, known.lost.has(place), `${place} is careful after a loss only`);
    for (const { index, attempts, deaths, dueInMs } of lease.histories) {
      const item = lease.start + index;
      // The loss in bulk, which comes before any start is written, counts once.
      const losses = known.losses.get(item)?.times ?? 0;
      assert(losses > 0 ? deaths >= 2 : deaths === 0, `item ${item} is blamed without cause`);
      assert(deaths <= Math.min(losses + 1, 2), `item ${item} died ${losses} times, not ${deaths}`);
      remembered.set(index, attempts);
      if (dueInMs > 0) waits.add(index);
    }
    for (const [index, word] of words.entries()) {
      const item = lease.start + index;
      const acknowledged = known.words.get(item);
      if (acknowledged !== undefined) {
        assert.equal(word, acknowledged, `item ${item} of ${lease.batch} changed its outcome`);
      } else if (word !== "pending") {
        // Only a conviction decides an item without a report; its dead letter is checked below.
        assert.equal(word, "failed", `item ${item} of ${lease.batch} has an outcome from nobody`);
        known.words.set(item, word);
      } else {
        const attempts = known.attempts.get(item) ?? 0;
        assert.equal(remembered.get(index) ?? 0, attempts, `item ${item} had ${attempts} attempts`);
      }
    }
    const due = words.filter((word, index) => word === "pending" && !waits.has(index));
    assert(due.length > 0, `${place} was leased with nothing to run`);
  }

  /** A worker runs an item: it must not be one that is finished for sure. */
  seeRun(lease: LeasedChunk, index: number): void {
    this.runs += 1;
    const holder = this.#holders.get(placeOf(lease));
    const current = holder?.fence === lease.fence && !holder.over;
    const word = this.#of(lease.batch).words.get(lease.start + index);
    // A holder that lost its lease may run what its successor has finished; that is known.
    assert(!current || word === undefined, `item ${lease.start + index} ran though it was ${word}`);
  }

  seeReport(report: Report, answer: "settled" | "kept" | "yielded" | "lost"): void {
    const holder = this.#holders.get(placeOf(report));
    const current = holder !== undefined && holder.fence === report.fence && !holder.over;
    if (!current) {
      assert.equal(answer, "lost", `${placeOf(report)} took a report from a stale holder`);
      return;
    }
    assert.notEqual(answer, "lost", `${placeOf(report)} refused its living holder`);
    holder.over = answer !== "kept";
    const known = this.#of(report.batch);
    for (const { index, attempts } of report.failures) {
      const item = holder.start + index;
      if (!known.words.has(item)) known.attempts.set(item, attempts);
    }
    for (const [index, word] of toWords(report.outcomes, holder.items).entries()) {
      const item = holder.start + index;
      if (word === "pending" || known.words.has(item)) continue;
      known.words.set(item, word);
      const result = report.results.find((one) => one.index === index);
      if (word === "succeeded" && result !== undefined) known.results.set(item, result.value);
    }
    const begun = report.starting.map((index) => holder.start + index);
    holder.started = begun.filter((item) => !known.words.has(item));
  }

  seeRenewal(leases: readonly LeaseRef[], lost: readonly LeaseRef[], until: number): void {
    for (const lease of leases) {
      const holder = this.#holders.get(placeOf(lease));
      const current = holder !== undefined && holder.fence === lease.fence && !holder.over;
      assert.equal(lost.includes(lease), !current, `${placeOf(lease)}: renewal misjudged a lease`);
      if (current) holder.until = until;
    }
  }

  seeSweep(now: number, lostLeases: number): void {
    const lost = [...this.#holders].filter(([, { over, until }]) => !over && until <= now);
    for (const [place, holder] of lost) {
      holder.over = true;
      const { losses, attempts, lost: chunks } = this.#of(place.slice(0, place.lastIndexOf("/")));
      chunks.add(place);
      const alone = holder.started.length === 1;
      for (const item of holder.started) {
        losses.set(item, { times: (losses.get(item)?.times ?? 0) + 1, alone });
        attempts.set(item, (attempts.get(item) ?? 0) + 1);
      }
    }
    assert.equal(lostLeases, lost.length, "a sweep counts exactly the leases that ran out");
  }

  /** What must be true of a batch at every instant. */
  checkBatch(view: BatchView): void {
    const { snapshot, recount, results, letters, records } = view;
    const { id, counts, state, endedAt } = snapshot;
    const { planned, succeeded, skipped, failed, cancelled, pending } = counts;
    const known = this.#of(id);
    const say = (rule: string): string => `${id}: ${rule}`;

    // Conservation.
    assert.deepEqual(recount.counters, counts, say("the counters are those of the snapshot"));
    assert.deepEqual(recount.recounted, counts, say("the counters equal a recount"));
    assert.equal(planned, succeeded + skipped + failed + cancelled + pending, say("conservation"));
    const least = Math.min(succeeded, skipped, failed, cancelled, pending);
    assert(least >= 0, say("no counter is negative"));
    const parts = [...known.parts.values()].reduce((sum, items) => sum + items, 0);
    assert.equal(planned, parts, say("every part that was planned is there once"));

    // One outcome.
    for (const { item, code, deaths } of letters) {
      if (code !== "POISON") continue;
      known.words.set(item, "failed");
      const { times, alone } = known.losses.get(item) ?? { times: 0, alone: false };
      assert(times >= 2 && alone && deaths === 3, say(`item ${item} was convicted without proof`));
    }
    const count = (word: Word): number =>
      [...known.words.values()].filter((one) => one === word).length;
    assert.deepEqual(
      { succeeded, skipped, failed },
      { succeeded: count("succeeded"), skipped: count("skipped"), failed: count("failed") },
      say("exactly what was acknowledged is counted"),
    );
    assert.deepEqual(
      letters.map(({ item }) => item),
      [...known.words]
        .flatMap(([item, word]) => (word === "failed" ? [item] : []))
        .toSorted(byNumber),
      say("exactly the failed items are dead letters"),
    );
    assert.deepEqual(
      results.map(({ item, value }) => [item, value]),
      [...known.results].toSorted(([a], [b]) => a - b),
      say("exactly the acknowledged results are stored, once each"),
    );

    // One ending, and an honest one.
    const endings = records.filter(({ type }) => type === "batch.ended");
    assert.equal(endings.length, endedAt === null ? 0 : 1, say("one ending"));
    if (endedAt === null) {
      const over = state === "running" && snapshot.sealed && pending === 0;
      assert(!over, say("a sealed batch without a pending item has ended"));
      return;
    }
    assert.equal(pending, 0, say("nothing is pending after the ending"));
    assert.deepEqual(endings[0], records.at(-1), say("the ending is the last record"));
    assert.deepEqual(endings[0]?.data, { ...endings[0]?.data, state, counts }, say("true counts"));
    const early = state === "failed" || state === "expired";
    assert(early || snapshot.sealed, say("only a sealed batch ends by itself"));
    if (state === "succeeded") assert.equal(failed + cancelled, 0, say("an honest success"));
    if (state === "completed_with_errors") assert(failed > 0 && cancelled === 0, say("honest"));
    known.ended ??= view;
    assert.deepEqual(view, known.ended, say("nothing changes after the ending"));
    for (const [place, holder] of this.#holders) {
      if (place.startsWith(`${id}/`)) holder.over = true;
    }
  }
}

const byNumber = (a: number, b: number): number => a - b;
