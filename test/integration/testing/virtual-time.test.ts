/** Engines in virtual time: time passes at once, and stands still during real work. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as waitReally } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import {
  type BatchEvent,
  definePipeline,
  defineStep,
  jsonl,
  later,
  type Pipeline,
  succeeded,
  TransientError,
} from "../../../src/index.ts";
import { inVirtualTime, refuse, type World } from "../../../src/testing.ts";

const HOUR_MS = 3_600_000;
/** More than any batch here needs, and far less than time that passes without a stop. */
const A_MOMENT_MS = 1_000;

/** Submits a batch to its own engine and waits for it. */
async function runBatch<Item, Input>(
  world: World,
  pipeline: Pipeline<Item, Input>,
  input: Input,
): Promise<string> {
  const engine = await world.startEngine();
  const batch = await engine.submit(pipeline, input);
  return (await batch.wait()).state;
}

describe("virtual time passes at once", () => {
  test("for hours of back-off", async () => {
    let tries = 0;
    await inVirtualTime({}, async (world) => {
      const flaky = definePipeline({
        name: "flaky",
        retry: { attempts: 4, baseMs: 2 * HOUR_MS, capMs: 4 * HOUR_MS },
        process: (_item: string) => {
          tries++;
          if (tries < 4) throw new TransientError("not yet");
        },
      });
      expect(await runBatch(world, flaky, ["a"])).toBe("succeeded");
      expect(tries).toBe(4);
      expect(world.elapsedMs).toBeGreaterThan(HOUR_MS);
    });
  });

  test("for a handler that spends virtual time on purpose, up to its time limit", async () => {
    await inVirtualTime({}, async (world) => {
      const slow = definePipeline({
        name: "slow",
        timeLimitMs: 5 * 60_000,
        retry: { attempts: 1 },
        maxRedrives: 0,
        process: (_item: string, { signal }) => world.sleep(HOUR_MS, signal),
      });
      const engine = await world.startEngine();
      const batch = await engine.submit(slow, ["a"]);
      const { state } = await batch.wait();
      const letters = [];
      for await (const { code } of batch.deadLetters()) letters.push(code);
      expect({ state, letters }).toEqual({
        state: "completed_with_errors",
        letters: ["TIME_LIMIT"],
      });
      expect(world.elapsedMs).toBeLessThan(6 * 60_000);
    });
  });

  test("for sleepers of one batch, side by side", async () => {
    await inVirtualTime({}, async (world) => {
      const nap = definePipeline({
        name: "nap",
        concurrency: 8,
        process: (_item: number) => world.sleep(60_000),
      });
      expect(await runBatch(world, nap, [1, 2, 3, 4, 5, 6, 7, 8])).toBe("succeeded");
      expect(world.elapsedMs).toBeGreaterThanOrEqual(60_000);
      expect(world.elapsedMs).toBeLessThan(61_000);
    });
  });

  test("for a deadline of the world's own wall clock", async () => {
    await inVirtualTime({}, async (world) => {
      const engine = await world.startEngine();
      const patient = definePipeline({ name: "patient", process: (_n: number) => later(HOUR_MS) });
      const deadline = new Date(world.now().getTime() + 3 * HOUR_MS);
      const batch = await engine.submit(patient, [1], { deadline });
      expect((await batch.wait()).state).toBe("expired");
      expect(world.now().getTime()).toBeGreaterThanOrEqual(deadline.getTime());
    });
  });
});

describe("virtual time stands still during real work", () => {
  let folder = "";

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "sluice-testing-"));
  });

  afterEach(() => rm(folder, { recursive: true, force: true }));

  test("of a handler with files", async () => {
    await inVirtualTime({}, async (world) => {
      const copy = definePipeline({
        name: "copy",
        process: async (name: string) => {
          await writeFile(join(folder, name), name);
          return readFile(join(folder, name), "utf8");
        },
      });
      const engine = await world.startEngine();
      const batch = await engine.submit(copy, ["a", "b", "c"]);
      const values = [];
      for await (const { value } of batch.results()) values.push(value);
      expect(values).toEqual(["a", "b", "c"]);
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a handler with Node's timers", async () => {
    await inVirtualTime({}, async (world) => {
      const slow = definePipeline({
        name: "slow",
        // Without the stop, time would be far beyond this before the handler is done.
        timeLimitMs: 500,
        process: (ms: number) => waitReally(ms),
      });
      expect(await runBatch(world, slow, [40, 20, 30])).toBe("succeeded");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a handler that requests a server", async () => {
    const server = createServer((request, response) => {
      setTimeout(() => response.end(`hello ${request.url}`), 10);
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    try {
      await inVirtualTime({}, async (world) => {
        const ask = definePipeline({
          name: "ask",
          timeLimitMs: 500,
          process: async (path: string, { signal }) => {
            const answer = await fetch(`http://127.0.0.1:${port}/${path}`, { signal });
            return answer.text();
          },
        });
        const engine = await world.startEngine();
        const batch = await engine.submit(ask, ["a", "b"]);
        const values = [];
        for await (const { value } of batch.results()) values.push(value);
        expect(values).toEqual(["hello /a", "hello /b"]);
        expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
      });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test("of a handler of a whole chunk", async () => {
    await inVirtualTime({}, async (world) => {
      const slow = definePipeline<number, undefined>({
        name: "slow",
        timeLimitMs: 500,
        processChunk: async (items) => {
          await waitReally(30);
          return items.map(() => succeeded());
        },
      });
      expect(await runBatch(world, slow, [1, 2])).toBe("succeeded");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a source that is a file, and of a slow one", async () => {
    const path = join(folder, "items.jsonl");
    await writeFile(path, '{"n":1}\n{"n":2}\n{"n":3}\n');
    await inVirtualTime({}, async (world) => {
      const fromFile = definePipeline({
        name: "from-file",
        chunkSize: 1,
        timeLimitMs: 500,
        source: ({ input }) => jsonl<{ n: number }>(input),
        process: ({ n }) => ({ n }),
      });
      expect(await runBatch(world, fromFile, path)).toBe("succeeded");
      const slow = definePipeline({
        name: "slow-source",
        timeLimitMs: 500,
        source: async function* () {
          for (const n of [1, 2, 3]) {
            await waitReally(20);
            yield n;
          }
        },
        process: (n: number) => n,
      });
      expect(await runBatch(world, slow, "")).toBe("succeeded");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of items that are added one by one", async () => {
    async function* produce(): AsyncGenerator<number> {
      for (const n of [1, 2, 3]) {
        await waitReally(20);
        yield n;
      }
    }
    await inVirtualTime({}, async (world) => {
      const plain = definePipeline({ name: "plain", process: (n: number) => n });
      expect(await runBatch(world, plain, produce())).toBe("succeeded");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a schema that is asynchronous", async () => {
    const item = z.number().refine(async (n) => {
      await waitReally(20);
      return n < 3;
    });
    await inVirtualTime({}, async (world) => {
      const checked = definePipeline({ name: "checked", item, timeLimitMs: 500, process: () => 1 });
      expect(await runBatch(world, checked, [1, 2, 3])).toBe("completed_with_errors");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a subscriber", async () => {
    const seen: string[] = [];
    await inVirtualTime({}, async (world) => {
      const engine = await world.startEngine();
      engine.subscribe("diary", async ({ type }: BatchEvent) => {
        await waitReally(5);
        seen.push(type);
      });
      const plain = definePipeline({ name: "plain", process: (n: number) => n });
      const batch = await engine.submit(plain, [1]);
      await batch.wait();
      expect(await engine.waitForSubscribers({ withinMs: A_MOMENT_MS })).toBe(true);
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
    expect(seen.at(-1)).toBe("batch.released");
  });

  test("of the test itself, if it says so", async () => {
    await inVirtualTime({}, async (world) => {
      await world.startEngine();
      expect(await world.real(async () => waitReally(50, "done"))).toBe("done");
      expect(world.elapsedMs).toBeLessThan(A_MOMENT_MS);
    });
  });

  test("of a test that waits for something real in an empty world", async () => {
    const text = await inVirtualTime({}, async () => {
      await waitReally(30);
      return "done";
    });
    expect(text).toBe("done");
  });

  test("with fake timers", async () => {
    vi.useFakeTimers();
    try {
      await inVirtualTime({}, async (world) => {
        const plain = definePipeline({
          name: "plain",
          process: (n: number) => readFile(import.meta.filename).then(() => n),
        });
        expect(await runBatch(world, plain, [1])).toBe("succeeded");
      });
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("a handler within virtual time", () => {
  test("that hangs meets its time limit, although it ignores its signal", async () => {
    await inVirtualTime({ hangAfterRealMs: 20 }, async (world) => {
      const stuck = definePipeline({
        name: "stuck",
        timeLimitMs: 5 * 60_000,
        retry: { attempts: 1 },
        maxRedrives: 0,
        process: (n: number) => (n === 1 ? Promise.withResolvers<number>().promise : n),
      });
      const engine = await world.startEngine();
      const batch = await engine.submit(stuck, [0, 1, 2]);
      const { counts } = await batch.wait();
      expect(counts).toMatchObject({ succeeded: 2, failed: 1 });
      for await (const { item, code } of batch.deadLetters()) {
        expect({ item, code }).toEqual({ item: 1, code: "TIME_LIMIT" });
      }
      expect(world.elapsedMs).toBeGreaterThanOrEqual(5 * 60_000);
      expect(world.history.filter((line) => line.includes("20 real ms"))).toHaveLength(1);
    });
  });

  test("gets its signal at the time limit", async () => {
    await inVirtualTime({ hangAfterRealMs: 20 }, async (world) => {
      const polite = definePipeline({
        name: "polite",
        timeLimitMs: 60_000,
        retry: { attempts: 2, baseMs: 10 },
        maxRedrives: 0,
        process: async (_n: number, { signal, attempt }) => {
          if (attempt === 2) return;
          await waitReally(HOUR_MS, undefined, { signal });
        },
      });
      expect(await runBatch(world, polite, [1])).toBe("succeeded");
    });
  });

  test("continues from its checkpoint, which needs virtual time to be committed", async () => {
    const stages: string[] = [];
    await inVirtualTime({ faults: [refuse("checkpoint", 1)] }, async (world) => {
      const staged = definePipeline({
        name: "staged",
        retry: { attempts: 2, baseMs: 10 },
        process: async (_n: number, context) => {
          if (context.lastCheckpoint === null) {
            stages.push("first");
            await context.checkpoint("first", { at: 1 });
            throw new TransientError("gone");
          }
          stages.push(`after ${context.lastCheckpoint.name}`);
        },
      });
      expect(await runBatch(world, staged, [1])).toBe("succeeded");
    });
    expect(stages).toEqual(["first", "after first"]);
  });

  test("can submit another batch", async () => {
    const seen: number[] = [];
    // With a long limit: if it had to expire first, the test would time out.
    await inVirtualTime({ hangAfterRealMs: 86_400_000 }, async (world) => {
      const engine = await world.startEngine();
      const child = definePipeline({
        name: "child",
        process: (n: number) => void seen.push(n),
      });
      const parent = definePipeline({
        name: "parent",
        process: async (n: number) => {
          await engine.submit(child, [n, n * 10], { lane: `child-${n}` });
        },
      });
      const batch = await engine.submit(parent, [1, 2]);
      expect((await batch.wait()).state).toBe("succeeded");
      await world.sleep(60_000);
    });
    expect(seen.toSorted((a, b) => a - b)).toEqual([1, 2, 10, 20]);
  });

  test("of a later step reads the results of the step before", async () => {
    await inVirtualTime({ hangAfterRealMs: 86_400_000 }, async (world) => {
      const stepped = definePipeline({
        name: "stepped",
        steps: [
          defineStep({ name: "double", process: (n: number) => n * 2 }),
          defineStep({
            name: "sum",
            source: async function* ({ results }) {
              let sum = 0;
              for await (const n of results<number>()) {
                await waitReally(2);
                sum += n;
              }
              yield sum;
            },
            process: (sum: number) => sum,
          }),
          defineStep({
            name: "settled",
            waitFor: { count: async () => waitReally(2, 0), target: 0 },
          }),
        ],
      });
      const engine = await world.startEngine();
      const batch = await engine.submit(stepped, [1, 2, 3]);
      expect((await batch.wait()).state).toBe("succeeded");
      const sums = [];
      for await (const { value } of batch.results<number>("sum")) sums.push(value);
      expect(sums).toEqual([12]);
    });
  });
});

describe("one seed", () => {
  const play = (seed: number): Promise<readonly string[]> =>
    inVirtualTime({ seed }, async (world) => {
      const work = definePipeline({
        name: "work",
        chunkSize: 2,
        concurrency: 2,
        retry: { attempts: 3, baseMs: 100 },
        process: async (n: number, { attempt }) => {
          await world.sleep(world.random() * 50);
          if (n % 3 === 0 && attempt === 1) throw new TransientError("once");
        },
      });
      const helper = world.start("helper", (engine) => engine.work(work));
      const main = world.start("main", async (engine) => {
        const batch = await engine.submit(work, [1, 2, 3, 4, 5, 6, 7, 8, 9], { key: "k" });
        await batch.wait();
      });
      await world.sleep(30);
      helper.kill();
      await main.done;
      return [...world.history];
    });

  test("has one history", async () => {
    const [first, again, other] = [await play(7), await play(7), await play(8)];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
    expect(first.length).toBeGreaterThan(8);
  });
});

describe("a test that cannot end", () => {
  test("is reported when nothing can happen any more", async () => {
    const stuck = inVirtualTime({ hangAfterRealMs: 20 }, () => Promise.withResolvers().promise);
    await expect(stuck).rejects.toMatchObject({
      code: "WORLD_STUCK",
      message: expect.stringContaining("nothing can happen") as string,
    });
  });

  test("is reported when the virtual time is over, with what happened last", async () => {
    const stuck = inVirtualTime({ virtualMsMax: HOUR_MS }, async (world) => {
      const engine = await world.startEngine();
      const patient = definePipeline({ name: "patient", process: (_n: number) => later(60_000) });
      await (await engine.submit(patient, [1])).wait();
    });
    await expect(stuck).rejects.toMatchObject({
      code: "WORLD_STUCK",
      message: expect.stringMatching(/3600000 ms.*\n.*commit/) as string,
    });
  });

  test("throws its own error, and the world is over", async () => {
    let world: World | null = null;
    const failing = inVirtualTime({}, async (given) => {
      world = given;
      await given.startEngine();
      throw new Error("expected 1 to be 2");
    });
    await expect(failing).rejects.toThrow("expected 1 to be 2");
    await expect(async () => world?.startEngine()).rejects.toMatchObject({
      code: "WRONG_STATE",
      kind: "world",
    });
  });
});

test("all bad options are refused at once", async () => {
  const options = { seeds: 1, hangAfterRealMs: 0, faults: ["settle"], engine: { clock: null } };
  const refused = inVirtualTime(options as object, () => undefined);
  await expect(refused).rejects.toMatchObject({ code: "BAD_OPTION", field: "world" });
  for (const part of ["seeds is not an option", "hangAfterRealMs must", "faults must", "clock"]) {
    await expect(refused).rejects.toThrow(part);
  }
});
