/**
 * One process at a time is killed or stopped at seeded moments, and others replace it. What was
 * reported before a restart must never run again.
 *
 *   SLUICE_CHAOS_ITEMS=1000000 SLUICE_CHAOS_KILLS=50 SLUICE_SEED=7 npx vitest run test/chaos/kill
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { type BatchLine, readLines } from "../support/command-line.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import type { ChaosOptions } from "./chaos-pipeline.ts";
import { Crew, type Member } from "./crew.ts";
import { WAIT_MS } from "./onlooker.ts";

const ITEMS = Number(process.env["SLUICE_CHAOS_ITEMS"] ?? 12_000);
const KILLS = Number(process.env["SLUICE_CHAOS_KILLS"] ?? 3);
const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const TEST_LIMIT_MS = 120_000 + ITEMS * 2;

let crew: Crew;
afterEach(() => crew.dispose());

/** Its process exited normally and reported the result of the batch. */
async function checkSucceeded({ running, name }: Member, items: number): Promise<void> {
  const { code, stdout, stderr } = await running.ended;
  expect(code, `${name}: ${stderr}`).toBe(0);
  const done = { state: "succeeded", planned: items, succeeded: items, pending: 0 };
  expect(readLines<BatchLine>(stdout)).toMatchObject([done]);
}

test(
  `after ${KILLS} kills at seeded moments every item is accounted for, and no settled item runs again`,
  async () => {
    const sizes = { chunkSize: 250, concurrency: 64, workMs: 1 };
    crew = new Crew({ items: ITEMS, ...sizes, events: "events.jsonl" });
    const random = new SeededRandom(SEED);
    // A start and an end for each item, and the batch must not have ended before the last kill.
    const moments = Array.from({ length: KILLS }, () => random.next() * 2 * ITEMS * 0.95);
    for (const moment of moments.toSorted((a, b) => a - b)) {
      const member = crew.start("run");
      await vi.waitUntil(() => crew.onlooker.countLines() >= moment || member.running.isOver, {
        timeout: TEST_LIMIT_MS,
        interval: 2,
      });
      await crew.kill(member);
      // It may have ended just before the kill, but never failed.
      const { signal, code, stderr } = await member.running.ended;
      expect(signal === "SIGKILL" || code === 0, `seed ${SEED}: ${stderr}`).toBe(true);
      await crew.onlooker.look({ withResults: true });
    }
    expect(crew.kills.length).toBeGreaterThan(KILLS / 2);
    await checkSucceeded(crew.start("run"), ITEMS);
    expect(findFaults(await crew.gather()), `seed ${SEED}`).toEqual([]);
  },
  TEST_LIMIT_MS,
);

describe("a process that is stopped until its leases have expired", () => {
  const items = 6_000;
  const leaseMs = 1_000;
  const settings = { leaseMs };
  /** It has more chunks to start when it continues. */
  const large = { chunkSize: 250, concurrency: 64, workMs: 2 };
  /** All its leased items have started, so it only has to report them. */
  const small = { chunkSize: 16, concurrency: 64, workMs: 25 };

  /** Stops while it works and stays stopped until its leases have expired. */
  async function fallAsleep(
    sizes: Partial<ChaosOptions>,
  ): Promise<{ readonly zombie: Member; readonly at: number }> {
    crew = new Crew({ items, settings, ...sizes });
    const zombie = crew.start("run");
    await crew.onlooker.waitForLines(items / 2);
    const at = await crew.sleep(zombie);
    await crew.onlooker.look({ withResults: true });
    await vi.waitUntil(() => readMonotonicMs() > at + leaseMs, { timeout: WAIT_MS });
    return { zombie, at };
  }

  test("continues if no other process has leased its chunks, and ends the batch once", async () => {
    const { zombie } = await fallAsleep(large);
    crew.wake(zombie);
    await checkSucceeded(zombie, items);
    expect(findFaults(await crew.gather())).toEqual([]);
  });

  for (const [what, sizes] of Object.entries({ large, small })) {
    test(`runs only what its successor does not have: ${what} chunks`, async () => {
      const { zombie } = await fallAsleep(sizes);
      const successor = crew.start("run");
      // It has just started the chunks that the other process held.
      await crew.onlooker.waitForLines(crew.onlooker.countLines() + sizes.chunkSize);
      crew.wake(zombie);
      for (const member of [zombie, successor]) await checkSucceeded(member, items);
      expect(findFaults(await crew.gather())).toEqual([]);
    });
  }

  test("changes nothing and starts nothing after the end of the batch", async () => {
    const { zombie, at } = await fallAsleep(small);
    await checkSucceeded(crew.start("run"), items);
    crew.wake(zombie);
    await checkSucceeded(zombie, items);
    const evidence = await crew.gather();
    expect(findFaults(evidence)).toEqual([]);
    const late = evidence.runs.filter(
      (run) => run.process === zombie.name && run.startAt > at && !run.isCaught,
    );
    expect(late).toEqual([]);
  });
});
