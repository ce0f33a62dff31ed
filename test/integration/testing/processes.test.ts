/** Processes of a world die, restart, and work side by side. */
import { setTimeout as waitReally } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { definePipeline, FatalError } from "../../../src/index.ts";
import { crash, inVirtualTime, refuse, type World } from "../../../src/testing.ts";

describe("a process", () => {
  test("that dies is restarted, with its program", async () => {
    const lives: number[] = [];
    await inVirtualTime({}, async (world) => {
      const nap = definePipeline({ name: "nap", process: (_n: number) => world.sleep(10_000) });
      const main = world.start("main", async (engine, life) => {
        lives.push(life);
        const batch = await engine.submit(nap, [1, 2], { key: "nap" });
        return batch.wait();
      });
      await world.sleep(5_000);
      main.kill();
      await world.sleep(5_000);
      expect(main.lives).toBe(2);
      main.kill();
      expect((await main.done).state).toBe("succeeded");
    });
    expect(lives).toEqual([1, 2, 3]);
  });

  test("that is killed twice at once learns it", async () => {
    await inVirtualTime({}, async (world) => {
      const main = world.start("main", () => undefined);
      await main.done;
      main.kill();
      expect(() => main.kill()).toThrow(
        expect.objectContaining({ code: "WRONG_STATE", kind: "process" }),
      );
    });
  });

  test("can be killed by an item, which is found and becomes a dead letter", async () => {
    await inVirtualTime({}, async (world) => {
      const killer: { process: ReturnType<World["start"]> | null } = { process: null };
      const fragile = definePipeline({
        name: "fragile",
        process: (n: number) => {
          if (n !== 13) return undefined;
          killer.process?.kill();
          return Promise.withResolvers<undefined>().promise;
        },
      });
      const main = world.start("main", async (engine) => {
        const batch = await engine.submit(
          fragile,
          Array.from({ length: 20 }, (_, n) => n),
          { key: "fragile" },
        );
        const { counts } = await batch.wait();
        const letters = [];
        for await (const { item, code } of batch.deadLetters()) letters.push({ item, code });
        return { counts, letters };
      });
      killer.process = main;
      const { counts, letters } = await main.done;
      expect(counts).toMatchObject({ succeeded: 19, failed: 1 });
      expect(letters).toEqual([{ item: 13, code: "POISON" }]);
      expect(main.lives).toBe(4);
    });
  });

  test("that a handler killed starts no other handler, although that one runs for a moment", async () => {
    const started: string[] = [];
    await inVirtualTime({}, async (world) => {
      const killer: { process: ReturnType<World["start"]> | null } = { process: null };
      const makePipeline = (life: number) =>
        definePipeline({
          name: "quick",
          concurrency: 1,
          process: (n: number) => {
            if (life === 1 && n === 1) killer.process?.kill();
            started.push(`${n} in life ${life}`);
          },
        });
      killer.process = world.start("main", async (engine, life) =>
        (await engine.submit(makePipeline(life), [1, 2, 3], { key: "quick" })).wait(),
      );
      await killer.process.done;
    });
    expect(started).toEqual(["1 in life 1", "1 in life 2", "2 in life 2", "3 in life 2"]);
  });

  test("that was killed starts no more handlers, and its sleepers never wake", async () => {
    const woken: string[] = [];
    const started: string[] = [];
    await inVirtualTime({}, async (world) => {
      const nap = definePipeline({
        name: "nap",
        concurrency: 1,
        process: async (name: string, { fence }) => {
          started.push(`${name} ${fence}`);
          await world.sleep(1_000);
          woken.push(`${name} ${fence}`);
        },
      });
      const main = world.start("main", async (engine) =>
        (await engine.submit(nap, ["a", "b"], { key: "nap" })).wait(),
      );
      await world.sleep(500);
      main.kill();
      await main.done;
    });
    expect(started).toEqual(["a 1", "a 2", "b 2"]);
    expect(woken).toEqual(["a 2", "b 2"]);
  });

  test("finishes the real work of a handler: the effect happens, but the result is lost", async () => {
    const effects: number[] = [];
    const started = Promise.withResolvers<void>();
    await inVirtualTime({}, async (world) => {
      const mail = definePipeline({
        name: "mail",
        process: async (_n: number, { fence }) => {
          started.resolve();
          await waitReally(20);
          effects.push(fence);
          return fence === 1 ? "of the dead" : "of the living";
        },
      });
      const main = world.start("main", async (engine, life) => {
        if (life === 2) expect(effects).toEqual([1]);
        const batch = await engine.submit(mail, [1], { key: "mail" });
        const values = [];
        for await (const { value } of batch.results()) values.push(value);
        return values;
      });
      await started.promise;
      main.kill();
      expect(effects).toEqual([]);
      expect(await main.done).toEqual(["of the living"]);
      expect(effects).toEqual([1, 2]);
    });
  });

  test("whose program throws rejects the wait", async () => {
    await inVirtualTime({}, async (world) => {
      const main = world.start("main", () => {
        throw new Error("no such table");
      });
      await expect(main.done).rejects.toThrow("no such table");
    });
  });

  test("whose program throws fails the test if the test does not wait for it", async () => {
    const failing = inVirtualTime({}, async (world) => {
      world.start("helper", async () => {
        throw new Error("no such table");
      });
      await world.sleep(1_000);
    });
    await expect(failing).rejects.toThrow("no such table");
  });

  test("whose program throws is named even when the test waits for something else", async () => {
    const failing = inVirtualTime({ hangAfterRealMs: 20, virtualMsMax: 60_000 }, async (world) => {
      world.start("main", async () => {
        throw new Error("no such table");
      });
      await Promise.withResolvers().promise;
    });
    await expect(failing).rejects.toThrow("no such table");
  });

  test("that waits for a batch when its world ends fails nothing", async () => {
    await inVirtualTime({}, async (world) => {
      const nap = definePipeline({ name: "nap", process: (_n: number) => world.sleep(1_000_000) });
      world.start("main", async (engine) => (await engine.submit(nap, [1])).wait());
      await world.sleep(1_000);
    });
  });

  test("needs its own name", async () => {
    const failing = inVirtualTime({}, (world) => {
      world.start("main", () => undefined);
      world.start("main", () => undefined);
    });
    await expect(failing).rejects.toMatchObject({ code: "BAD_OPTION", field: "name" });
  });
});

describe("several processes", () => {
  test("share the chunks of a batch and take over those of dead processes", async () => {
    const ran: string[] = [];
    await inVirtualTime({ seed: 3 }, async (world) => {
      const makePipeline = (who: string) =>
        definePipeline({
          name: "shared",
          chunkSize: 1,
          concurrency: 1,
          process: async (n: number) => {
            await world.sleep(1_000);
            ran.push(`${who} ${n}`);
          },
        });
      const helpers = ["b", "c"].map((who) =>
        world.start(who, (engine) => engine.work(makePipeline(who))),
      );
      const main = world.start("a", async (engine) =>
        (await engine.submit(makePipeline("a"), [1, 2, 3, 4, 5, 6], { key: "k" })).wait(),
      );
      await world.sleep(500);
      for (const helper of helpers) helper.kill();
      expect((await main.done).state).toBe("succeeded");
      expect(helpers.map(({ lives }) => lives)).toEqual([2, 2]);
    });
    const items = ran.map((line) => line.split(" ")[1]);
    expect(new Set(items).size).toBe(6);
    expect(new Set(ran.map((line) => line.split(" ")[0])).size).toBe(3);
  });

  test("may have their own settings", async () => {
    const faults = [crash.after("lease", 1)];
    const engine = { leaseMs: 60_000 };
    await inVirtualTime({ faults, engine }, async (world) => {
      const plain = definePipeline({ name: "plain", process: (n: number) => n });
      const submit = world.start(
        "main",
        async (given) => (await given.submit(plain, [1], { key: "k" })).wait(),
        { pollMs: 500 },
      );
      expect((await submit.done).state).toBe("succeeded");
      // The lease of the dead process expired first.
      expect(world.elapsedMs).toBeGreaterThan(60_000);
    });
  });
});

describe("an engine that is not restarted", () => {
  test("fails the test at once when a fault kills it", async () => {
    const failing = inVirtualTime({ faults: [crash.after("submit", 1)] }, async (world) => {
      const engine = await world.startEngine();
      const plain = definePipeline({ name: "plain", process: (n: number) => n });
      await engine.submit(plain, [1]);
    });
    await expect(failing).rejects.toMatchObject({
      code: "WORLD_STUCK",
      message: expect.stringContaining('crash.after("submit", 1) killed the engine') as string,
    });
  });

  test("stays alive after a refused call", async () => {
    await inVirtualTime({ faults: [refuse("submit", 1)] }, async (world) => {
      const engine = await world.startEngine();
      const plain = definePipeline({ name: "plain", process: (n: number) => n });
      expect((await (await engine.submit(plain, [1])).wait()).state).toBe("succeeded");
    });
  });

  test("that failed permanently says so, and its world still ends", async () => {
    const failing = inVirtualTime({}, async (world) => {
      const engine = await world.startEngine();
      const bad = definePipeline({
        name: "bad",
        process: (_n: number) => {
          throw new FatalError("the credentials are gone");
        },
      });
      await (await engine.submit(bad, [1])).wait();
    });
    await expect(failing).rejects.toThrow("the credentials are gone");
  });
});
