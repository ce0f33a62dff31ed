/** Each fault happens where its words say, and a fault that never happens is reported. */
import { describe, expect, test } from "vitest";
import { type BatchEvent, definePipeline, TransientError } from "../../../src/index.ts";
import type { LogEntry } from "../../../src/runtime/system/log.ts";
import {
  crash,
  type Fault,
  inVirtualTime,
  late,
  loseAnswer,
  refuse,
  type World,
} from "../../../src/testing.ts";

interface Story {
  readonly state: string;
  readonly counts: { readonly succeeded: number };
  /** How often each item ran. */
  readonly runs: Readonly<Record<string, number>>;
  readonly lives: number;
  readonly commits: readonly string[];
  readonly history: readonly string[];
  readonly elapsedMs: number;
}

/** Four items in two chunks, one at a time, with a checkpoint in between. */
function play(
  faults: readonly Fault[],
  options: Parameters<typeof inVirtualTime>[0] = {},
): Promise<Story> {
  return inVirtualTime({ ...options, faults }, async (world) => {
    const runs: Record<string, number> = {};
    const pipeline = definePipeline({
      name: "letters",
      chunkSize: 2,
      concurrency: 1,
      process: async (letter: string, { checkpoint, lastCheckpoint }) => {
        runs[letter] = (runs[letter] ?? 0) + 1;
        // Longer than a commit may wait for others to share it with.
        await world.sleep(40);
        if (letter === "b" && lastCheckpoint === null) await checkpoint("half");
      },
    });
    const main = world.start("main", async (engine) => {
      const batch = await engine.submit(pipeline, ["a", "b", "c", "d"], { key: "letters" });
      return batch.wait();
    });
    const { state, counts } = await main.done;
    const { lives } = main;
    const { commits, history, elapsedMs } = world;
    return { state, counts, runs, lives, commits, history, elapsedMs };
  });
}

const once = { a: 1, b: 1, c: 1, d: 1 };

/** The commits of the first life. */
function firstLife({ history }: Story): string[] {
  return history.flatMap((line) => /main\.1 commit \d+: (.*)$/.exec(line)?.slice(1) ?? []);
}

/** What a crash left of the first life must be a prefix of the history without a crash. */
async function tellUntil(
  point: string,
  nth: number,
): Promise<{ before: string[]; after: string[] }> {
  const { commits } = await play([]);
  const places = commits.flatMap((what, at) =>
    point === "commit" || what.split(" + ").includes(point) ? [at] : [],
  );
  const at = places[nth - 1] ?? Number.NaN;
  return { before: commits.slice(0, at), after: commits.slice(0, at + 1) };
}

test("without a fault every item runs once, in one life", async () => {
  const story = await play([]);
  expect(story).toMatchObject({ state: "succeeded", runs: once, lives: 1 });
  expect(story.commits.slice(0, 5)).toEqual(["submit", "slice", "plan", "slice", "lease"]);
  expect(story.commits.at(-1)).toBe("settle + end");
});

describe("a crash", () => {
  const points = [
    ["submit", 1],
    ["slice", 2],
    ["plan", 1],
    ["lease", 1],
    ["lease", 2],
    ["flush", 1],
    ["checkpoint", 1],
    ["settle", 1],
    ["settle", 2],
    ["end", 1],
    ["commit", 1],
    ["commit", 4],
  ] as const;

  test.each(points)("before the %s number %d happens right before it", async (point, nth) => {
    const story = await play([crash.before(point, nth)]);
    expect(story).toMatchObject({ state: "succeeded", lives: 2, counts: { succeeded: 4 } });
    expect(firstLife(story)).toEqual((await tellUntil(point, nth)).before);
  });

  test.each(points)("after the %s number %d happens right after it", async (point, nth) => {
    const story = await play([crash.after(point, nth)]);
    expect(story).toMatchObject({ state: "succeeded", lives: 2, counts: { succeeded: 4 } });
    expect(firstLife(story)).toEqual((await tellUntil(point, nth)).after);
  });

  test("after the first settle loses nothing that was settled", async () => {
    const story = await play([crash.after("settle", 1)]);
    expect(story.runs).toMatchObject({ a: 1, b: 1 });
  });

  test("before the first settle repeats what the settle would have reported", async () => {
    const story = await play([crash.before("settle", 1)]);
    expect(story.runs).toMatchObject({ b: 2 });
  });

  test("after the end finds the batch ended when its process restarts", async () => {
    const story = await play([crash.after("end", 1)]);
    expect(story).toMatchObject({ state: "succeeded", lives: 2, runs: once });
  });

  test("can happen several times, even at the same place", async () => {
    const story = await play([
      crash.before("submit", 1),
      crash.before("submit", 1),
      crash.after("plan", 1),
    ]);
    expect(story).toMatchObject({ state: "succeeded", lives: 4, runs: once });
  });

  test("counts a raw method of the store by its calls", async () => {
    const story = await play([
      crash.before("store.registerWorker", 1),
      crash.after("store.work", 1),
    ]);
    expect(story).toMatchObject({ state: "succeeded", lives: 3 });
    expect(story.history.slice(0, 3).map((line) => line.replace(/^\d+ /, ""))).toEqual([
      "main.1 starts",
      'main.1 crash.before("store.registerWorker", 1) strikes registerWorker',
      "main.1 dies",
    ]);
  });
});

describe("a reply", () => {
  test("of a settle that is lost: the settle stands, and its repetition changes nothing", async () => {
    const said: string[] = [];
    const log = ({ message }: LogEntry): void => void said.push(message);
    const story = await play([loseAnswer("settle", 1)], { engine: { log } });
    expect(said).toContain("the answer to work was lost");
    expect(story).toMatchObject({ state: "succeeded", lives: 1, counts: { succeeded: 4 } });
    expect(story.runs).toMatchObject({ a: 1, b: 1 });
  });

  test("of a submit that is lost: the repeated submit returns the same batch", async () => {
    const story = await play([loseAnswer("submit", 1)]);
    expect(story).toMatchObject({ state: "succeeded", runs: once });
    expect(story.commits.filter((what) => what === "submit")).toHaveLength(1);
  });

  test("that refuses a call comes before anything is committed", async () => {
    const { history } = await play([refuse("settle", 1)]);
    const at = history.findIndex((line) => line.includes("refuse("));
    const [refusedAt = 0, settledAt = 0] = history.slice(at, at + 2).map(Number.parseFloat);
    expect(history[at + 1]).toContain("settle");
    expect(settledAt - refusedAt).toBeGreaterThan(50);
  });

  test("that refuses a call is followed by a repetition, which counts", async () => {
    const story = await play([refuse("settle", 1), refuse("settle", 1), refuse("submit", 1)]);
    expect(story).toMatchObject({ state: "succeeded", runs: once, lives: 1 });
    expect(story.history.filter((line) => line.includes("refuse("))).toHaveLength(3);
  });
});

test("a late call is delayed by its time, and its worker keeps its lease", async () => {
  const story = await play([late("settle", 1, 60_000)]);
  expect(story).toMatchObject({ state: "succeeded", runs: once, lives: 1 });
  expect(story.elapsedMs).toBeGreaterThanOrEqual(60_000);
});

test("a renewal that is later than its lease does no harm", async () => {
  const runs: number[] = [];
  await inVirtualTime({ faults: [late("renew", 1, 20_000)] }, async (world) => {
    const engine = await world.startEngine();
    const slow = definePipeline({
      name: "slow",
      process: async (n: number) => {
        runs.push(n);
        await world.sleep(60_000);
      },
    });
    const batch = await engine.submit(slow, [1]);
    expect((await batch.wait()).state).toBe("succeeded");
  });
  expect(runs).toEqual([1]);
});

describe("other points", () => {
  const flaky = (world: World) =>
    definePipeline({
      name: "flaky",
      retry: { attempts: 2, baseMs: 100 },
      process: async (_n: number, { attempt }) => {
        await world.sleep(10);
        if (attempt === 1) throw new TransientError("once");
      },
    });

  test("giveBack: a chunk is given back with items that wait for a retry", async () => {
    await inVirtualTime({ faults: [crash.after("giveBack", 1)] }, async (world) => {
      const main = world.start("main", async (engine) =>
        (await engine.submit(flaky(world), [1], { key: "k" })).wait(),
      );
      expect((await main.done).state).toBe("succeeded");
      expect(main.lives).toBe(2);
      expect(world.commits).toContain("giveBack");
    });
  });

  test("sweep: only a sweep that found something", async () => {
    const faults = [crash.after("lease", 1), crash.before("sweep", 1)];
    await inVirtualTime({ faults }, async (world) => {
      const main = world.start("main", async (engine) =>
        (await engine.submit(flaky(world), [1], { key: "k" })).wait(),
      );
      expect((await main.done).state).toBe("succeeded");
      expect(main.lives).toBe(3);
    });
  });

  test("deliver: an event that was taken before a crash is delivered again", async () => {
    const seen: string[] = [];
    await inVirtualTime({ faults: [crash.before("deliver", 2)] }, async (world) => {
      const main = world.start("main", async (engine) => {
        engine.subscribe("diary", ({ type }: BatchEvent) => void seen.push(type));
        const batch = await engine.submit(flaky(world), [1], { key: "k" });
        await batch.wait();
        await engine.waitForSubscribers({ withinMs: 60_000 });
      });
      await main.done;
    });
    expect(seen.slice(0, 3)).toEqual(["batch.submitted", "batch.started", "batch.started"]);
    expect(seen.filter((type) => type === "batch.ended")).toHaveLength(1);
  });

  test.each([
    { process: "main", lives: [2, 1] },
    { process: "helper", lives: [1, 2] },
  ])("fail only the named process: $process", async ({ process, lives }) => {
    await inVirtualTime({ faults: [crash.after("lease", 1, { process })] }, async (world) => {
      const nap = definePipeline({
        name: "nap",
        chunkSize: 1,
        concurrency: 1,
        process: (_n: number) => world.sleep(100),
      });
      const helper = world.start("helper", (engine) => engine.work(nap));
      const main = world.start("main", async (engine) =>
        (await engine.submit(nap, [1, 2, 3, 4, 5, 6], { key: "k" })).wait(),
      );
      expect((await main.done).state).toBe("succeeded");
      expect([main.lives, helper.lives]).toEqual(lives);
    });
  });
});

describe("a fault that never happened", () => {
  test("fails a test that would pass, and is named with the points that happened", async () => {
    const unmet = play([crash.after("settle", 9), crash.before("settle", 1)]);
    await expect(unmet).rejects.toMatchObject({ code: "FAULT_NOT_REACHED" });
    await expect(unmet).rejects.toThrow('crash.after("settle", 9)');
    await expect(unmet).rejects.toThrow("settle + end");
    await expect(unmet).rejects.not.toThrow('crash.before("settle", 1)');
  });

  test("does not hide another failure of a test", async () => {
    const failing = inVirtualTime({ faults: [crash.after("settle", 9)] }, () => {
      throw new Error("expected 1 to be 2");
    });
    await expect(failing).rejects.toThrow("expected 1 to be 2");
  });
});
