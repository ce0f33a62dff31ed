/** The promises as checks of what can be observed of one batch. */
import assert from "node:assert/strict";
import type { BatchSnapshot } from "../../src/ports/store/conductor-store.ts";
import type { DeadLetter, Recount, StoredResult } from "../../src/ports/store/query-store.ts";
import type { Word } from "../support/outcome-words.ts";
import { type Known, nameItem, noteRedriven } from "./witness-known.ts";

/** Everything that can be observed of one batch. */
export interface BatchView {
  readonly snapshot: BatchSnapshot;
  readonly recount: Recount;
  /** Of all steps, in order. */
  readonly results: readonly StoredResult[];
  readonly letters: readonly DeadLetter[];
  readonly records: readonly { readonly type: string; readonly data: object }[];
}

const makeDescribe =
  ({ snapshot }: BatchView) =>
  (rule: string): string =>
    `${snapshot.id}: ${rule}`;

/** One outcome per item and drive, exactly as it was acknowledged. */
export function checkItems(view: BatchView, known: Known): void {
  const { snapshot, results, letters, records } = view;
  const describe = makeDescribe(view);
  const dead = new Map(letters.map((letter) => [nameItem(letter.step, letter.item), letter]));
  for (const [item, { code, deaths, drive }] of dead) {
    if (drive > (known.drives.get(item) ?? 1)) known.drives.set(item, drive);
    if (code !== "POISON") continue;
    if (known.words.get(item) === "failed") continue;
    known.words.set(item, "failed");
    const { times, alone } = known.losses.get(item) ?? { times: 0, alone: false };
    assert(
      times >= 2 && alone && deaths === 3,
      describe(`item ${item} was convicted without proof`),
    );
  }
  // Only a redrive removes an outcome, and it is recorded with its number of items.
  for (const [item, word] of known.words) {
    if (word === "failed" && !dead.has(item)) noteRedriven(known, item);
  }
  const recorded = records
    .filter(({ type }) => type === "dead_letters.redriven")
    .reduce((sum, { data }) => sum + (data as { items: number }).items, 0);
  assert.equal(known.redriven, recorded, describe("every redriven item is on record"));

  const count = (word: Word): number =>
    [...known.words.values()].filter((one) => one === word).length;
  const { succeeded, skipped, failed } = snapshot.counts;
  assert.deepEqual(
    { succeeded, skipped, failed },
    { succeeded: count("succeeded"), skipped: count("skipped"), failed: count("failed") },
    describe("exactly what was acknowledged is counted"),
  );
  const failedItems = [...known.words].flatMap(([item, word]) => (word === "failed" ? [item] : []));
  assert.deepEqual(
    [...dead.keys()].toSorted(),
    failedItems.toSorted(),
    describe("exactly the failed items are dead letters"),
  );
  assert.deepEqual(
    new Map(results.map(({ step, item, value }) => [nameItem(step, item), value])),
    known.results,
    describe("exactly the acknowledged results are stored, once each"),
  );
}

/** Conservation, of each step and of all. */
export function checkPlan(view: BatchView, known: Known): void {
  const { snapshot, recount } = view;
  const describe = makeDescribe(view);
  const { counts, steps } = snapshot;
  assert.deepEqual(recount.counters, counts, describe("the counters are those of the snapshot"));
  assert.deepEqual(recount.recounted, counts, describe("the counters equal a recount"));
  for (const [at, one] of steps.entries()) {
    const { planned, succeeded, skipped, failed, cancelled, pending } = one.counts;
    const sum = succeeded + skipped + failed + cancelled + pending;
    assert.equal(planned, sum, describe(`conservation of step ${at}`));
    const least = Math.min(succeeded, skipped, failed, cancelled, pending);
    assert(least >= 0, describe("no counter is negative"));
    const parts = [...known.parts.values()].filter(({ step }) => step === at);
    const items = parts.reduce((total, part) => total + part.items, 0);
    assert.equal(
      planned,
      items,
      describe(`every part of step ${at} that was planned is there once`),
    );
  }
  assert.equal(
    counts.planned,
    sumOf(steps, "planned"),
    describe("the counts are those of all steps"),
  );
  assert.equal(
    counts.pending,
    sumOf(steps, "pending"),
    describe("the counts are those of all steps"),
  );
}

function sumOf(steps: BatchSnapshot["steps"], name: keyof BatchSnapshot["counts"]): number {
  return steps.reduce((sum, { counts }) => sum + counts[name], 0);
}

/** One truthful ending for each drive that ended the batch. */
export function checkEnding(view: BatchView, known: Known): void {
  const { snapshot, letters, results, records } = view;
  const describe = makeDescribe(view);
  const { counts, state, endedAt, steps, settings } = snapshot;
  const { failed, cancelled, pending } = counts;
  const endings = records.filter(({ type }) => type === "batch.ended");
  const drives = endings.map(({ data }) => (data as { drive: number }).drive);
  assert.equal(
    endings.length,
    known.reopenings + (endedAt === null ? 0 : 1),
    describe("one ending"),
  );
  assert.equal(new Set(drives).size, drives.length, describe("one ending per drive"));
  if (endedAt === null) {
    const over = state === "running" && snapshot.sealed && pending === 0;
    assert(!over, describe("a sealed batch without a pending item has ended"));
    return;
  }
  assert.equal(pending, 0, describe("nothing is pending after the ending"));
  assert(!snapshot.active, describe("an ended batch holds no lane"));
  const last = endings.at(-1)?.data;
  assert.deepEqual(last, { ...last, state, counts }, describe("true counts"));
  const early = state === "failed" || state === "expired" || state === "cancelled";
  assert(early || snapshot.sealed, describe("only a sealed batch ends by itself"));
  assert(early || steps.length === settings.steps.length, describe("it ended in its last step"));
  if (state === "succeeded")
    assert.equal(failed + cancelled, 0, describe("a success has no failed item"));
  if (state === "completed_with_errors") assert(failed > 0 && cancelled === 0, describe("honest"));
  if (state === "cancelled") assert(snapshot.cancel !== null, describe("its cancel was requested"));
  // Dead letters may be accepted afterwards; nothing else changes until the batch is reopened.
  const bare = letters.map((letter) => ({ ...letter, discarded: null }));
  const seen = { snapshot: { ...snapshot, pause: null }, letters: bare, results, endings };
  known.ended ??= seen;
  assert.deepEqual(seen, known.ended, describe("nothing changes after the ending"));
}
