/** Rates and paces of a running engine, in virtual time: every start is observed with its time. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type BatchProgress,
  definePipeline,
  type Engine,
  jsonl,
  type Pipeline,
  TransientError,
} from "../../../src/index.ts";
import { crash, inVirtualTime, type World } from "../../../src/testing.ts";
import { startWorkers } from "../../support/workers.ts";
import { findRateExcess } from "../../chaos/black-box/windows.ts";

interface Start {
  readonly key: string;
  readonly at: number;
}

const count = (n: number): number[] => Array.from({ length: n }, (_, at) => at);

const timesOf = (starts: readonly Start[]): number[] => starts.map(({ at }) => at);

/** Runs a batch on several engines. Returns how it ended. */
async function runOn<Item>(
  world: World,
  engines: number,
  pipeline: Pipeline<Item, Iterable<Item> | AsyncIterable<Item>>,
  items: readonly Item[],
): Promise<BatchProgress> {
  const [engine] = await startWorkers(world, engines, pipeline);
  const batch = await engine.submit(pipeline, items);
  return batch.wait();
}

describe("a rate", () => {
  test("fails only the line whose key cannot be read", async () => {
    await inVirtualTime({}, async (world) => {
      const folder = mkdtempSync(join(tmpdir(), "sluice-rates-"));
      const path = join(folder, "items.jsonl");
      writeFileSync(path, '{"site":"a"}\nnot json\n{"site":"b"}\n');
      const pipeline = definePipeline({
        name: "fetch",
        source: ({ input }: { input: string }) => jsonl<{ site: string }>(input),
        rate: { perSecond: 50, key: ({ site }) => site },
        process: () => undefined,
      });
      try {
        const engine = await world.startEngine();
        const batch = await engine.submit(pipeline, path);
        expect((await batch.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  });

  test("holds over several workers together, and nearly all of it is used", async () => {
    const starts: Start[] = [];
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        chunkSize: 20,
        rate: { perSecond: 50, burst: 10 },
        process: async (_item: number) => {
          starts.push({ key: "", at: world.elapsedMs });
          await world.sleep(30);
        },
      });
      const ended = await runOn(world, 4, pipeline, count(1_000));
      expect(ended).toMatchObject({ state: "succeeded", counts: { succeeded: 1_000 } });
    });
    expect(starts).toHaveLength(1_000);
    expect(findRateExcess(timesOf(starts), { perSecond: 50, burst: 10 })).toBeLessThanOrEqual(0);
    const tookMs = starts.at(-1)!.at - starts[0]!.at;
    expect(1_000 / (tookMs / 1_000)).toBeGreaterThan(0.95 * 50);
  });

  test("is nearly all used after a worker dies, and its items run guarded", async () => {
    const starts: Start[] = [];
    await inVirtualTime({ faults: [crash.before("settle", 9)] }, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        chunkSize: 20,
        rate: { perSecond: 50, burst: 10 },
        process: async (_item: number) => {
          starts.push({ key: "", at: world.elapsedMs });
          await world.sleep(30);
        },
      });
      const workers = count(4).map((n) =>
        world.start(`worker ${n}`, async (engine) => {
          engine.work(pipeline);
          const batch = await engine.submit(pipeline, count(1_500), { key: "one" });
          return batch.wait();
        }),
      );
      for (const { done } of workers) expect((await done).state).toBe("succeeded");
      expect(workers.map(({ lives }) => lives).toSorted((a, b) => a - b)).toEqual([1, 1, 1, 2]);
    });
    expect(findRateExcess(timesOf(starts), { perSecond: 50, burst: 10 })).toBeLessThanOrEqual(0);
    const tookMs = starts.at(-1)!.at - starts[0]!.at;
    expect(starts.length / (tookMs / 1_000)).toBeGreaterThan(0.9 * 50);
  });

  test("beside a smooth pace does not block a guarded run, although their tokens are valid at different times", async () => {
    await inVirtualTime({ faults: [crash.before("settle", 2)] }, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        chunkSize: 10,
        rate: { perSecond: 100, burst: 7, tokens: 3 },
        pace: { items: 20, everyMs: 1_000, smooth: true },
        process: async (_item: number) => world.sleep(5),
      });
      const main = world.start("main", async (engine) => {
        engine.work(pipeline);
        const batch = await engine.submit(pipeline, count(40), { key: "one" });
        return batch.wait();
      });
      expect(await main.done).toMatchObject({ state: "succeeded", counts: { succeeded: 40 } });
      expect(world.elapsedMs).toBeLessThan(60_000);
    });
  });

  test("of a slow key delays only its own items", async () => {
    const run = async (items: readonly number[]): Promise<Start[]> => {
      const starts: Start[] = [];
      await inVirtualTime({}, async (world) => {
        const pipeline = definePipeline({
          name: "fetch",
          chunkSize: 100,
          concurrency: 8,
          rate: {
            key: (item: number) => `site-${item % 51}`,
            perSecond: 1_000,
            keys: { "site-0": { perSecond: 1, burst: 1 } },
          },
          process: async (item: number) => {
            starts.push({ key: `site-${item % 51}`, at: world.elapsedMs });
            await world.sleep(20);
          },
        });
        expect((await runOn(world, 1, pipeline, [...items])).state).toBe("succeeded");
      });
      return starts;
    };
    const mixed = await run(count(2_040));
    const alone = await run(count(2_040).filter((item) => item % 51 !== 0));
    const slow = mixed.filter(({ key }) => key === "site-0");
    const fast = mixed.filter(({ key }) => key !== "site-0");
    expect(findRateExcess(timesOf(slow), { perSecond: 1, burst: 1 })).toBeLessThanOrEqual(0);
    expect(slow).toHaveLength(40);
    expect(fast.at(-1)!.at).toBeLessThan(alone.at(-1)!.at * 1.05);
  });

  test("holds neither a slot nor a lease while items wait: another batch runs", async () => {
    const done: string[] = [];
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        concurrency: 1,
        chunkSize: 10,
        rate: { key: (item: string) => item, perSecond: 100, keys: { slow: { perSecond: 0.1 } } },
        process: (item: string) => void done.push(item),
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const slow = await engine.submit(pipeline, ["slow", "slow", "slow"], { lane: "slow" });
      const quick = await engine.submit(pipeline, ["a", "b", "c"], { lane: "quick" });
      await quick.wait();
      expect(done.filter((item) => item === "slow")).toHaveLength(1);
      const why = await engine.operator.why(slow.id);
      expect(JSON.stringify(why)).toContain("waits for the rate of key slow");
      await slow.wait();
      expect(world.elapsedMs).toBeGreaterThan(20_000);
    });
  });

  test("counts every attempt, and the further calls of an attempt", async () => {
    const starts: Start[] = [];
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        rate: { perSecond: 10, burst: 5, tokens: (item: number) => 1 + (item % 2) },
        retry: { attempts: 3, baseMs: 0, capMs: 0 },
        process: (item: number, { attempt }) => {
          for (let token = 0; token <= item % 2; token++) {
            starts.push({ key: "", at: world.elapsedMs });
          }
          if (attempt < 3) throw new TransientError("again");
        },
      });
      await runOn(world, 2, pipeline, count(20));
    });
    expect(starts).toHaveLength(90);
    expect(findRateExcess(timesOf(starts), { perSecond: 10, burst: 5 })).toBeLessThanOrEqual(0);
  });

  test("fails an item that needs more than the burst, with a hint; others run", async () => {
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        maxRedrives: 0,
        rate: {
          perSecond: 10,
          burst: 5,
          key: (item: number) => {
            if (item === 3) throw new Error("no site");
            return "site";
          },
          tokens: (item) => item,
        },
        process: () => undefined,
      });
      const engine = await world.startEngine();
      const batch = await engine.submit(pipeline, [1, 9, 3, 2]);
      expect(await batch.wait()).toMatchObject({ counts: { succeeded: 2, failed: 2 } });
      const letters = [];
      for await (const letter of batch.deadLetters()) letters.push(letter);
      expect(letters.map(({ code, message }) => `${code} ${message}`)).toEqual([
        'BAD_FUNCTION_RESULT it needs 9 tokens at once, and the burst of key "site" is 5: raise rate.burst',
        expect.stringContaining("no site"),
      ]);
    });
  });
});

describe("an item that waits for a token", () => {
  test("gets one when the only slot is free again, even after an abandoned handler", async () => {
    const starts: string[] = [];
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "fetch",
        concurrency: 1,
        maxRedrives: 0,
        timeLimitMs: 500,
        retry: { attempts: 1 },
        rate: { key: (item: string) => item, perSecond: 20, burst: 1 },
        process: async (item: string) => {
          starts.push(item);
          if (item === "stuck") await world.sleep(60_000);
        },
      });
      const ended = await runOn(world, 1, pipeline, ["stuck", "next", "last"]);
      expect(ended.counts).toMatchObject({ succeeded: 2, failed: 1 });
    });
    expect(starts.toSorted()).toEqual(["last", "next", "stuck"]);
  });
});

test("a batch that is cancelled while its items wait leaves its worker free for the next", async () => {
  await inVirtualTime({}, async (world) => {
    const started = Promise.withResolvers<void>();
    const pipeline = definePipeline({
      name: "fetch",
      concurrency: 1,
      inlineItems: 0,
      rate: { perSecond: 5, burst: 1 },
      process: async (item: string) => {
        started.resolve();
        if (item === "slow") await world.sleep(5_000);
      },
    });
    const engine = await world.startEngine();
    engine.work(pipeline);
    const items = ["slow", ...count(99).map(String)];
    const first = await engine.submit(pipeline, items, { lane: "one" });
    await started.promise;
    await engine.operator.cancel({ batch: first.id }, { mode: "now" });
    expect((await first.wait()).state).toBe("cancelled");
    const next = await engine.submit(pipeline, ["d", "e"], { lane: "two" });
    expect(await next.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 2 } });
  });
});

describe("a server that asks for a delay", () => {
  test("gets it from every worker, and no other server does", async () => {
    const starts: Start[] = [];
    await inVirtualTime({}, async (world) => {
      let refusals = 1;
      const pipeline = definePipeline({
        name: "fetch",
        chunkSize: 4,
        rate: { key: (item: string) => item.slice(0, 1) },
        process: async (item: string) => {
          starts.push({ key: item.slice(0, 1), at: world.elapsedMs });
          await world.sleep(10);
          if (item.startsWith("a") && refusals-- > 0) {
            throw Object.assign(new Error("too many"), {
              status: 429,
              headers: new Headers({ "retry-after": "2" }),
            });
          }
        },
      });
      const items = count(60).map((at) => `${at % 2 === 0 ? "a" : "b"}${at}`);
      const ended = await runOn(world, 3, pipeline, items);
      expect(ended.state).toBe("succeeded");
    });
    const closedAt = starts.find(({ key }) => key === "a")!.at + 10;
    const during = starts.filter(({ at }) => at > closedAt + 1_000 && at < closedAt + 2_000);
    expect(during.filter(({ key }) => key === "a")).toEqual([]);
    expect(Math.max(...starts.filter(({ key }) => key === "b").map(({ at }) => at))).toBeLessThan(
      1_500,
    );
    expect(starts.filter(({ key, at }) => key === "a" && at >= closedAt + 2_000)).not.toEqual([]);
  });
});

test("a key that an operator closes starts nothing, and continues soon after it is opened", async () => {
  const starts: Start[] = [];
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "fetch",
      chunkSize: 4,
      rate: { key: (item: string) => item.slice(0, 1), perSecond: 50 },
      process: (item: string) => void starts.push({ key: item.slice(0, 1), at: world.elapsedMs }),
    });
    const engines = [await world.startEngine(), await world.startEngine()];
    const [{ operator }] = engines as [Engine, Engine];
    await operator.closeKey("fetch", "a", { forMs: 3_600_000 });
    for (const engine of engines) engine.work(pipeline);
    const items = count(60).map((at) => `${at % 2 === 0 ? "a" : "b"}${at}`);
    const batch = await engines[0]!.submit(pipeline, items);
    await world.sleep(100_000);
    expect(starts.filter(({ key }) => key === "a")).toEqual([]);
    expect(starts).toHaveLength(30);
    expect((await operator.closedKeys()).map(({ rate, key }) => ({ rate, key }))).toEqual([
      { rate: "fetch", key: "a" },
    ]);
    expect((await batch.why()).message).toContain("waits for the closed key a");
    expect(await operator.openKey("fetch", "a")).toBe(true);
    const openedAt = world.elapsedMs;
    expect((await batch.wait()).state).toBe("succeeded");
    expect(world.elapsedMs - openedAt).toBeLessThan(40_000);
  });
});

describe("a pace", () => {
  test("starts a fixed number in each window, over all workers, and a refused start uses its place", async () => {
    const starts: Start[] = [];
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "send",
        chunkSize: 50,
        pace: { items: 100, everyMs: 200 },
        retry: { attempts: 2, baseMs: 0, capMs: 0 },
        process: async (item: number, { attempt }) => {
          starts.push({ key: "", at: world.elapsedMs });
          await world.sleep(5);
          if (item % 50 === 0 && attempt === 1) throw new TransientError("again");
        },
      });
      const ended = await runOn(world, 3, pipeline, count(1_000));
      expect(ended).toMatchObject({ state: "succeeded", counts: { succeeded: 1_000 } });
    });
    expect(starts).toHaveLength(1_020);
    const times = starts.map(({ at }) => at).toSorted((a, b) => a - b);
    for (const [at, time] of times.entries()) {
      const next = times[at + 100];
      if (next !== undefined) expect(next - time).toBeGreaterThanOrEqual(200);
    }
  });

  test("belongs to one batch and its submission", async () => {
    await inVirtualTime({}, async (world) => {
      const starts = new Map<string, number[]>();
      const pipeline = definePipeline({
        name: "send",
        pace: { items: 2, everyMs: 60_000, smooth: true },
        process: (_item: number, { batch }) => {
          starts.set(batch, [...(starts.get(batch) ?? []), world.elapsedMs]);
        },
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batches = await Promise.all(
        ["one", "two"].map((lane) => engine.submit(pipeline, count(4), { lane })),
      );
      await Promise.all(batches.map((batch) => batch.wait()));
      for (const times of starts.values()) {
        expect(times).toHaveLength(4);
        for (const [at, time] of times.slice(1).entries()) {
          expect(time - times[at]!).toBeGreaterThanOrEqual(30_000);
        }
      }
    });
  });

  test("starts nothing during quiet hours", async () => {
    await inVirtualTime({}, async (world) => {
      const hours: number[] = [];
      const even = count(12).map((at) => `${2 * at}`.padStart(2, "0"));
      const pipeline = definePipeline({
        name: "send",
        pace: {
          items: 10,
          everyMs: 3_600_000,
          quietHours: even.map((hour) => ({
            from: `${hour}:00`,
            to: `${hour}:59`,
            timeZone: "Asia/Kolkata",
          })),
        },
        process: (_item: number) => {
          // Half an hour different from most time zones.
          hours.push((world.now().getTime() / 3_600_000 + 5.5) % 2);
        },
      });
      const ended = await runOn(world, 2, pipeline, count(30));
      expect(ended.state).toBe("succeeded");
      expect(hours).toHaveLength(30);
      expect(hours.filter((hour) => hour < 59 / 60)).toEqual([]);
    });
  });
});

test.each([
  [{ rate: { perSecond: 0 } }, "rate.perSecond must be a number above 0"],
  [{ rate: { perSecond: Number.NaN } }, "rate.perSecond must be a number above 0"],
  [{ rate: { perSecond: -1 } }, "rate.perSecond must be a number above 0"],
  [{ rate: { perSecond: 1e10 } }, "at most 1,000,000,000"],
  [{ rate: { perSecond: 5, burst: 0 } }, "rate.burst must be a number from 1 to"],
  [{ rate: { burst: 5 } }, "rate.burst needs a perSecond"],
  [{ rate: { perSecond: 5, burst: 2, tokens: 3 } }, "below the 3 tokens of one attempt (it is 2)"],
  [{ rate: { perSecond: 5, keys: { a: { perSecond: -2 } } } }, "rate.keys.a.perSecond"],
  [{ rate: { perSecnd: 5 } }, "perSecnd"],
  [{ pace: { items: 0, everyMs: 100 } }, "pace.items must be a whole number from 1"],
  [{ pace: { items: 1, everyMs: Number.NaN } }, "pace.everyMs must be a whole number from 1"],
  [{ pace: { items: 1, everyMs: 1, quietHours: { from: "9", to: "10:00" } } }, "time of the day"],
  [
    { pace: { items: 1, everyMs: 1, quietHours: { from: "08:00", to: "08:00" } } },
    "never open: leave a time in which items may start",
  ],
  [
    {
      pace: { items: 1, everyMs: 1, quietHours: { from: "01:00", to: "02:00", timeZone: "Mars" } },
    },
    "must be a time zone",
  ],
])("%j is refused: %s", (options, message) => {
  const define = (): unknown =>
    definePipeline({ name: "bad", process: () => undefined, ...(options as object) } as never);
  expect(define).toThrow(message);
});

test("with bounds, concurrency adapts to what the server accepts", async () => {
  await inVirtualTime({}, async (world) => {
    let active = 0;
    let most = 0;
    let refused = 0;
    const pipeline = definePipeline({
      name: "call",
      chunkSize: 500,
      concurrency: { min: 2, max: 100 },
      retry: { attempts: 1_000, baseMs: 1, capMs: 5 },
      process: async (_item: number) => {
        active++;
        most = Math.max(most, active);
        try {
          await world.sleep(20);
          if (active > 25) {
            refused++;
            throw Object.assign(new Error("too many"), { status: 429 });
          }
        } finally {
          active--;
        }
      },
    });
    const ended = await runOn(world, 1, pipeline, count(4_000));
    expect(ended).toMatchObject({ state: "succeeded" });
    expect(most).toBeGreaterThan(20);
    expect(most).toBeLessThan(45);
    expect(refused).toBeLessThan(800);
  });
});
