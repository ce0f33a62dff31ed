/**
 * Watches the answers of the stores and checks the promises without predicting anything: what was
 * acknowledged stays true, only the newest holder changes anything, and nothing starts that was
 * stopped.
 */
import assert from "node:assert/strict";
import type { PlanPart, PlanResult } from "../../src/ports/store/conductor-store.ts";
import type { PauseScope } from "../../src/ports/store/operator-store.ts";
import type {
  ChunkRef,
  LeasedChunk,
  LeaseRef,
  Report,
} from "../../src/ports/store/worker-store.ts";
import { toWords } from "../support/outcome-words.ts";
import { type BatchView, checkEnding, checkItems, checkPlan } from "./witness-checks.ts";
import { type Known, makeKnown, nameItem, noteRedriven } from "./witness-known.ts";

interface Holder {
  readonly batch: string;
  readonly step: number;
  readonly fence: number;
  readonly start: number;
  readonly items: number;
  until: number;
  /** Items whose start it wrote and whose end it did not. */
  started: readonly number[];
  /** Given back, settled, swept, or its batch has ended. */
  over: boolean;
}

const placeOf = ({ batch, step, chunk }: ChunkRef): string => `${batch}/${step}/${chunk}`;

export class Witness {
  readonly #known = new Map<string, Known>();
  readonly #holders = new Map<string, Holder>();
  readonly #paused = new Set<string>();
  readonly #cancelled = new Map<string, "drain" | "now">();
  /** Lanes whose order was changed: by a move, or by a policy that lets others overtake. */
  readonly #disordered = new Set<string>();
  /** Handler runs; for the summary. */
  runs = 0;

  #of(batch: string): Known {
    const known = this.#known.get(batch) ?? makeKnown();
    this.#known.set(batch, known);
    return known;
  }

  seePlan({ batch, step, part, chunks }: PlanPart, answer: PlanResult): void {
    if (answer.kind !== "planned") return;
    const items = chunks.reduce((sum, chunk) => sum + chunk.items, 0);
    const { parts, slicings } = this.#of(batch);
    if (!parts.has(part)) parts.set(part, { step, items, slicing: slicings });
  }

  /** The plan of the current slicing is deleted; what was planned before it stays. */
  seeAfresh(batch: string): void {
    const { parts, slicings } = this.#of(batch);
    for (const [name, { slicing }] of parts) if (slicing === slicings) parts.delete(name);
  }

  seePause({ scope, name }: PauseScope, paused: boolean): void {
    if (paused) this.#paused.add(`${scope}/${name}`);
    else this.#paused.delete(`${scope}/${name}`);
  }

  seeCancel(batch: string, mode: "drain" | "now"): void {
    if (this.#cancelled.get(batch) !== "now") this.#cancelled.set(batch, mode);
  }

  seeDisorder(lane: string): void {
    this.#disordered.add(lane);
  }

  /** Only unfinished items are leased, only when due, and only to one holder at a time. */
  seeLease(lease: LeasedChunk, now: number, leaseMs: number): void {
    const known = this.#of(lease.batch);
    const place = placeOf(lease);
    const before = this.#holders.get(place);
    assert(known.ended === null, `${place} was leased after its batch had ended`);
    assert(!this.#cancelled.has(lease.batch), `${place} was leased after a cancel`);
    const names = [`batch/${lease.batch}`, `lane/${known.lane}`, `pipeline/${known.pipeline}`];
    assert(!names.some((name) => this.#paused.has(name)), `${place} was leased in a pause`);
    assert(before === undefined || before.over, `${place} was leased while another worker held it`);
    assert(lease.fence > (before?.fence ?? 0), `the fence of ${place} did not rise`);
    const { batch, step, fence, start, end } = lease;
    const held = { batch, step, fence, start, items: end - start, until: now + leaseMs };
    this.#holders.set(place, { ...held, started: [], over: false });

    const words = toWords(lease.outcomes, lease.end - lease.start);
    const waits = new Set<number>();
    const remembered = new Map<number, number>();
    assert.equal(lease.guarded, known.lost.has(place), `${place} is guarded after a loss only`);
    for (const { index, attempts, deaths, dueInMs, drive } of lease.histories) {
      const item = nameItem(lease.step, lease.start + index);
      if (drive > (known.drives.get(item) ?? 1)) {
        // Most were noted when their dead letters went; those of a pass in this commit were not.
        if (known.words.get(item) === "failed") noteRedriven(known, item);
        known.drives.set(item, drive);
      }
      // The loss in bulk, which comes before any start is written, counts once.
      const losses = known.losses.get(item)?.times ?? 0;
      assert(losses > 0 ? deaths >= 2 : deaths === 0, `item ${item} is blamed without cause`);
      assert(deaths <= Math.min(losses + 1, 2), `item ${item} died ${losses} times, not ${deaths}`);
      remembered.set(index, attempts);
      if (dueInMs > 0) waits.add(index);
    }
    for (const [index, word] of words.entries()) {
      const item = nameItem(lease.step, lease.start + index);
      const acknowledged = known.words.get(item);
      if (acknowledged !== undefined) {
        assert.equal(word, acknowledged, `item ${item} of ${lease.batch} changed its outcome`);
      } else if (word !== "pending") {
        // Only a conviction decides an item without a report; its dead letter is checked below.
        assert.equal(
          word,
          "failed",
          `item ${item} of ${lease.batch} has an outcome without a report`,
        );
        known.words.set(item, word);
      } else {
        const attempts = known.attempts.get(item) ?? 0;
        assert.equal(remembered.get(index) ?? 0, attempts, `item ${item} had ${attempts} attempts`);
      }
    }
    const due = words.filter((word, index) => word === "pending" && !waits.has(index));
    assert(due.length > 0, `${place} was leased with nothing to run`);
  }

  /** A worker runs an item: it must not be certainly finished. */
  seeRun(lease: LeasedChunk, index: number): void {
    this.runs += 1;
    const item = nameItem(lease.step, lease.start + index);
    const word = this.#of(lease.batch).words.get(item);
    // A holder that lost its lease may run items that its successor has finished; that is expected.
    const current = this.#findCurrent(lease) !== null;
    assert(!current || word === undefined, `item ${item} ran though it was ${word}`);
  }

  #findCurrent(lease: LeaseRef): Holder | null {
    const holder = this.#holders.get(placeOf(lease));
    return holder !== undefined && holder.fence === lease.fence && !holder.over ? holder : null;
  }

  seeReport(report: Report, answer: "settled" | "kept" | "yielded" | "lost"): void {
    const holder = this.#findCurrent(report);
    if (holder === null) {
      assert.equal(answer, "lost", `${placeOf(report)} took a report from a stale holder`);
      return;
    }
    assert.notEqual(answer, "lost", `${placeOf(report)} refused its current holder`);
    holder.over = answer !== "kept";
    const known = this.#of(report.batch);
    for (const { index, attempts } of report.failures) {
      const item = nameItem(report.step, holder.start + index);
      if (!known.words.has(item)) known.attempts.set(item, attempts);
    }
    for (const [index, word] of toWords(report.outcomes, holder.items).entries()) {
      const item = nameItem(report.step, holder.start + index);
      if (word === "pending" || known.words.has(item)) continue;
      known.words.set(item, word);
      const result = report.results.find((one) => one.index === index);
      if (word === "succeeded" && result !== undefined) known.results.set(item, result.value);
    }
    const begun = report.starting.map((index) => holder.start + index);
    holder.started = begun.filter((item) => !known.words.has(nameItem(report.step, item)));
  }

  seeRenewal(leases: readonly LeaseRef[], lost: readonly LeaseRef[], until: number): void {
    for (const lease of leases) {
      const holder = this.#findCurrent(lease);
      const misjudged = `${placeOf(lease)}: renewal misjudged a lease`;
      assert.equal(lost.includes(lease), holder === null, misjudged);
      if (holder !== null && this.#cancelled.get(lease.batch) !== "now") holder.until = until;
    }
  }

  seeSweep(now: number, lostLeases: number): void {
    const lost = [...this.#holders].filter(([, { over, until }]) => !over && until <= now);
    for (const [place, holder] of lost) {
      holder.over = true;
      const { losses, attempts, lost: chunks } = this.#of(holder.batch);
      chunks.add(place);
      const alone = holder.started.length === 1;
      for (const number of holder.started) {
        const item = nameItem(holder.step, number);
        losses.set(item, { times: (losses.get(item)?.times ?? 0) + 1, alone });
        attempts.set(item, (attempts.get(item) ?? 0) + 1);
      }
    }
    assert.equal(lostLeases, lost.length, "a sweep counts exactly the leases that ran out");
  }

  /** What must be true of all batches at every instant. */
  checkAll(views: readonly BatchView[]): void {
    for (const view of views) this.#checkBatch(view);
    const lanes = Map.groupBy(views, ({ snapshot }) => snapshot.lane);
    for (const [lane, ofLane] of lanes) {
      const holders = ofLane.filter(({ snapshot }) => snapshot.active);
      assert(holders.length <= 1, `lane ${lane} is held by ${holders.length} batches`);
      for (const { snapshot } of ofLane) {
        assert(
          snapshot.state !== "running" || snapshot.active,
          `${snapshot.id} runs before its turn`,
        );
      }
      if (!this.#disordered.has(lane)) checkOrder(lane, ofLane);
    }
  }

  #checkBatch(view: BatchView): void {
    const { id, lane, pipeline, endedAt } = view.snapshot;
    const known = this.#of(id);
    Object.assign(known, { lane, pipeline });
    const count = (type: string): number =>
      view.records.filter((record) => record.type === type).length;
    if (count("batch.reopened") > known.reopenings) {
      known.reopenings = count("batch.reopened");
      known.ended = null;
      this.#cancelled.delete(id);
    }
    known.slicings = count("slicing.started");
    checkItems(view, known);
    checkPlan(view, known);
    checkEnding(view, known);
    if (endedAt === null) return;
    // The pause of a batch ends with it.
    this.#paused.delete(`batch/${id}`);
    for (const holder of this.#holders.values()) if (holder.batch === id) holder.over = true;
  }
}

/**
 * If the order was not changed, a batch starts after all that were submitted before it. A reopened
 * batch joins its lane a second time.
 */
function checkOrder(lane: string, all: readonly BatchView[]): void {
  const views = all.filter(({ records }) => !records.some(({ type }) => type === "batch.reopened"));
  const started = views.map(({ snapshot }) => snapshot.startedAt !== null);
  const first = views.findIndex(
    ({ snapshot }) => snapshot.startedAt === null && snapshot.endedAt === null,
  );
  if (first === -1) return;
  for (const [at, { snapshot }] of views.entries()) {
    const overtook = at > first && started[at];
    assert(!overtook, `${snapshot.id} started before an earlier batch of lane ${lane}`);
  }
}
