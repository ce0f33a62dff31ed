/**
 * Paced batches of a running engine, in virtual time: cancel, maximum run time, outages, unsent
 * items.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type BatchHandle, definePipeline, jsonl, OutageError } from "../../../src/index.ts";
import { inVirtualTime } from "../../../src/testing.ts";

const count = (n: number): number[] => Array.from({ length: n }, (_, at) => at);

async function listUnsent(batch: BatchHandle): Promise<unknown[]> {
  const unsent: unknown[] = [];
  for await (const { value } of batch.items("cancelled")) unsent.push(value);
  return unsent;
}

describe("every unsent item is known", () => {
  test("after an abort", async () => {
    await inVirtualTime({}, async (world) => {
      const sent: number[] = [];
      const pipeline = definePipeline({
        name: "send",
        chunkSize: 10,
        pace: { items: 5, everyMs: 60_000 },
        topics: { unsent: "not-sent" },
        process: (item: number) => void sent.push(item),
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, count(100));
      await world.sleep(250_000);
      const { counts } = await batch.cancel();
      const unsent = await listUnsent(batch);
      expect(sent.length).toBeGreaterThanOrEqual(20);
      expect(counts).toMatchObject({ succeeded: sent.length, cancelled: unsent.length });
      expect([...sent, ...unsent].toSorted((a, b) => Number(a) - Number(b))).toEqual(count(100));
      const told: unknown[] = [];
      engine.consume("not-sent", "audit", ({ data }) => {
        told.push((data as { value: unknown }).value);
      });
      await world.sleep(20_000);
      expect(told.toSorted((a, b) => Number(a) - Number(b))).toEqual(unsent);
    });
  });

  test("after the maximum run time, when the batch has expired", async () => {
    await inVirtualTime({}, async (world) => {
      const sent: number[] = [];
      const pipeline = definePipeline({
        name: "send",
        chunkSize: 10,
        maxRunMs: 200_000,
        pace: { items: 5, everyMs: 60_000 },
        process: (item: number) => void sent.push(item),
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, count(100));
      expect(await batch.wait()).toMatchObject({ state: "expired", reason: { code: "DEADLINE" } });
      const unsent = await listUnsent(batch);
      expect([...sent, ...unsent].toSorted((a, b) => Number(a) - Number(b))).toEqual(count(100));
      expect(sent).toHaveLength(20);
    });
  });
});

test("the audience is frozen: later changes of the file do not matter", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-paces-"));
  const file = join(folder, "audience.jsonl");
  await writeFile(
    file,
    count(6)
      .map((id) => `{"id":${id}}\n`)
      .join(""),
  );
  try {
    await inVirtualTime({}, async (world) => {
      const sent: number[] = [];
      const pipeline = definePipeline({
        name: "send",
        chunkSize: 2,
        source: ({ input }: { input: string }) => jsonl<{ id: number }>(input),
        pace: { items: 2, everyMs: 60_000 },
        process: async ({ id }) => {
          sent.push(id);
          await writeFile(file, "");
        },
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, file);
      expect(await batch.wait()).toMatchObject({ state: "succeeded" });
      expect(sent).toEqual(count(6));
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

describe("an outage of the sending system", () => {
  test("is retried for hours, and no item is charged", async () => {
    await inVirtualTime({}, async (world) => {
      const tries: number[] = [];
      const attempts = new Set<number>();
      const pipeline = definePipeline({
        name: "send",
        pace: { items: 100, everyMs: 1_000 },
        retry: { attempts: 1 },
        process: (_item: number, { attempt }) => {
          attempts.add(attempt);
          if (world.elapsedMs < 3 * 3_600_000) {
            tries.push(world.elapsedMs);
            throw new OutageError("the gateway is away");
          }
        },
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, count(40));
      expect(await batch.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 40 } });
      expect([...attempts]).toEqual([1]);
      // Every minute only the items with a slot meet the outage.
      expect(tries.length).toBeLessThanOrEqual(16 * 181);
      expect(world.elapsedMs).toBeGreaterThan(3 * 3_600_000);
    });
  });

  test("fails the batch after a maximum of outages in a row", async () => {
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "send",
        pace: { items: 100, everyMs: 1_000, outages: { everyMs: 1_000, attempts: 5 } },
        process: () => {
          throw new OutageError("the gateway is away");
        },
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, count(10));
      expect(await batch.wait()).toMatchObject({
        state: "failed",
        reason: {
          code: "OUTAGE",
          message: "the system it sends through was unavailable 5 times in a row",
        },
        counts: { cancelled: 10 },
      });
      expect(world.elapsedMs).toBeLessThan(60_000);
    });
  });
});
