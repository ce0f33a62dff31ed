/**
 * Batches with a pace, sent by several processes that are killed, and one that is cancelled
 * half-way: what was sent, what was not, and when.
 */
import { afterEach, expect, test } from "vitest";
import { createEngine } from "../../src/index.ts";
import { openSqlite } from "../../src/sqlite.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { findCrowds } from "./black-box/windows.ts";
import { Crew, type Member } from "./crew.ts";

const ITEMS = 1_000;
const PACE = { items: 100, everyMs: 200 };
const SIZES = { items: ITEMS, chunkSize: 20, workMs: 5, pace: PACE };

let crew: Crew;
afterEach(() => crew.dispose());

const sort = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

test("a paced batch survives three kills: it sends to everyone, repeats only what a kill forced, and never exceeds its pace", async () => {
  crew = new Crew({ ...SIZES, events: "events.jsonl" });
  const victims: Member[] = [crew.start("run"), crew.start("work"), crew.start("work")];
  for (const [at, victim] of victims.entries()) {
    // A start and an end for each item.
    await crew.onlooker.waitForLines(ITEMS * (0.4 + 0.5 * at));
    await crew.kill(victim);
    crew.restart(victim);
  }
  expect(crew.kills).toHaveLength(3);
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  // Among others: one outcome each, and every repeated start has a reason.
  expect(findFaults(evidence)).toEqual([]);
  expect(evidence.status).toMatchObject({ state: "succeeded", succeeded: ITEMS });
  const { runs } = evidence;
  expect(new Set(runs.map(({ item }) => item)).size).toBe(ITEMS);
  const times = runs.map(({ startAt }) => startAt);
  const tookMs = Math.round(times.at(-1)! - times[0]!);
  console.log(`${runs.length} starts of ${ITEMS} items in ${tookMs} ms`);
  expect(findCrowds(times, PACE)).toEqual([]);
});

/** An operator in a separate process, who is quicker than a command that has to start. */
async function withBatch<Result>(
  act: (batch: Awaited<ReturnType<Awaited<ReturnType<typeof createEngine>>["get"]>>) => Result,
): Promise<Awaited<Result>> {
  const store = await openSqlite(crew.work.at("store.db"));
  const engine = await createEngine({ store, work: false });
  try {
    const [found] = await store.listBatches({ limit: 1 });
    return await act(await engine.get(found!.id));
  } finally {
    await engine.close();
    await store.close();
  }
}

test("a paced batch that is cancelled half-way lists exactly the unsent items", async () => {
  crew = new Crew(SIZES);
  crew.start("run");
  crew.start("work");
  await crew.onlooker.waitForLines(ITEMS * 0.4);
  const unsent = await withBatch(async (batch) => {
    expect((await batch.cancel()).state).toBe("cancelled");
    const items: number[] = [];
    for await (const { item } of batch.items("cancelled")) items.push(item);
    return items;
  });
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  expect(findFaults(evidence)).toEqual([]);
  const { status, results, runs } = evidence;
  expect(status.state).toBe("cancelled");
  const sent = results.map(({ item }) => item);
  expect(unsent.length).toBeGreaterThan(0);
  expect(status.cancelled).toBe(ITEMS - sent.length);
  expect(unsent.length).toBe(status.cancelled);
  expect(sort([...sent, ...unsent])).toEqual(Array.from({ length: ITEMS }, (_, item) => item));
  // No process was killed: every call that returned counts as sent.
  const ended = runs.filter(({ answer }) => answer === "ok").map(({ item }) => item);
  expect(sort(ended)).toEqual(sort(sent));
  const times = runs.map(({ startAt }) => startAt);
  expect(findCrowds(times, PACE)).toEqual([]);
});
