import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { Engine } from "../engine/engine.ts";
import { definePipeline } from "../pipeline/pipeline.ts";

const LEASE = { leaseMs: 3_000, pollMs: 500 };
/** A third of a lease. */
const RENEW_MS = 1_000;

test("a lease whose answer is late does not count as renewed by a renewal at the same time", async () => {
  const time = new VirtualTime();
  const clock = new MortalClock(time);
  const startedAt = new Map<string, number>();
  const pipeline = definePipeline({
    name: "late",
    chunkSize: 1,
    process: async (item: string) => {
      startedAt.set(item, clock.monotonicMs());
      // While it runs there is something to renew.
      await sleep(clock, item === "long" ? 20_000 : 10);
    },
  });
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  let leasedAt = 0;
  const slow: Store = {
    ...store,
    work: async (reports, request) => {
      const answer = await store.work(reports, request);
      if (answer.leased.length === 0 || leasedAt > 0 || !startedAt.has("long")) return answer;
      leasedAt = clock.monotonicMs();
      await sleep(clock, LEASE.leaseMs + 1.3 * RENEW_MS);
      return answer;
    },
    // Long enough for a renewal to be answered before any item starts.
    readManifests: async (...given) => {
      await sleep(clock, 1.1 * RENEW_MS);
      return store.readManifests(...given);
    },
    // A renewal is always under way.
    renew: async (...given) => {
      const answer = await store.renew(...given);
      await sleep(clock, RENEW_MS);
      return answer;
    },
  };
  const play = async (): Promise<void> => {
    const engine = await Engine.start(slow, { clock, random: new SeededRandom(2), ...LEASE });
    engine.work(pipeline);
    const long = await engine.submit(pipeline, ["long", "and another"], { lane: "long" });
    await sleep(clock, 3_000);
    await engine.submit(pipeline, ["late", "later"], { lane: "late" });
    await long.wait();
    await engine.close();
  };
  let isOver = false;
  const played = play().finally(() => (isOver = true));
  expect(await time.run(() => isOver, 600_000)).toBe(true);
  await played;
  expect(leasedAt).toBeGreaterThan(0);
  // Under a later lease, or not at all.
  const lateMs = (startedAt.get("late") ?? Number.POSITIVE_INFINITY) - leasedAt;
  expect(lateMs).toBeGreaterThan(LEASE.leaseMs + 3 * RENEW_MS);
});
