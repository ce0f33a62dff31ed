/**
 * Cancels at random moments while several processes work: nothing starts after the acknowledgement.
 */
import { expect, vi } from "vitest";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { Fleet, type Line } from "./fleet.ts";

const PROCESSES = 4;
const ITEMS = 400;
const ENDED = new Set(["succeeded", "completed_with_errors", "failed", "cancelled", "expired"]);

interface Acknowledged {
  readonly batch: string;
  /** When the caller received the acknowledgement; the commit was earlier. */
  readonly at: number;
  readonly succeeded: number;
}

export async function checkCancels(moments: number, seed: number): Promise<void> {
  const random = new SeededRandom(seed);
  const fleet = await Fleet.start(PROCESSES, {
    workMs: 2,
    chunkSize: 5,
    concurrency: 4,
    leaseItemsMax: 16,
    sweepMs: 20,
  });
  const acknowledged: Acknowledged[] = [];
  try {
    for (let moment = 0; moment < moments; moment++) {
      acknowledged.push(await cancelOnce(fleet, random, moment));
    }
    await fleet.close();
    const lines = Map.groupBy(fleet.readLines(), ({ batch }) => batch);
    for (const one of acknowledged) checkLines(one, lines.get(one.batch) ?? [], seed);
    const endings = (await fleet.readRecords()).filter(({ type }) => type === "batch.ended");
    expect(endings).toHaveLength(moments);
    // Most cancels hit the batch while it runs.
    const midway = acknowledged.filter(({ succeeded }) => succeeded > 0 && succeeded < ITEMS);
    expect(midway.length).toBeGreaterThan(moments / 3);
  } finally {
    await fleet.dispose();
  }
}

async function cancelOnce(
  fleet: Fleet,
  random: SeededRandom,
  moment: number,
): Promise<Acknowledged> {
  const [submitter] = fleet.members;
  const pipeline = moment % 2 === 0 ? "owned" : "sourced";
  const [batch = ""] = (await submitter?.submit([{ pipeline, lane: "a", items: ITEMS }])) ?? [];
  // One in six is cancelled at once, perhaps during slicing.
  const done = moment % 6 === 5 ? 0 : Math.floor(random.next() * ITEMS * 0.8);
  const handle = await fleet.engine.get(batch);
  await vi.waitUntil(async () => (await fleet.store.getBatch(batch))!.counts.succeeded >= done, {
    timeout: 60_000,
    interval: 1,
  });
  const killed = moment % 4 === 3 ? fleet.members.at(-1) : undefined;
  const cancelling = handle.cancel();
  if (killed !== undefined) await killed.kill();
  const { state, counts } = await cancelling;
  const at = systemClock.monotonicMs();
  expect(["cancelled", "succeeded"]).toContain(state);
  expect(counts).toMatchObject({ failed: 0, skipped: 0, pending: 0 });
  expect(counts.succeeded + counts.cancelled).toBe(counts.planned);
  const recount = await fleet.store.recount(batch);
  expect(recount?.counters).toEqual(recount?.recounted);
  const page = { step: 0, afterItem: -1, limit: ITEMS, sinceDrive: 1 };
  expect(await fleet.store.readResults(batch, page)).toHaveLength(counts.succeeded);
  if (killed !== undefined) await fleet.add();
  return { batch, at, succeeded: counts.succeeded };
}

function checkLines({ batch, at, succeeded }: Acknowledged, lines: Line[], seed: number): void {
  const starts = lines.filter(({ what }) => what === "start");
  const late = starts.filter((line) => line.at > at || ENDED.has(line.state));
  expect(late, `seed ${seed}, batch ${batch}: started after the acknowledgement`).toEqual([]);
  // Every item that counts as succeeded has started.
  expect(new Set(starts.map(({ item }) => item)).size).toBeGreaterThanOrEqual(succeeded);
}
