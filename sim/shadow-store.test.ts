/**
 * Gives the traffic of the real runtime, with its faults, to the reference model and to another
 * store.
 */
import { describe, expect, test } from "vitest";
import { createMemoryStore, type MemoryStore } from "../src/adapters/memory/store.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Store } from "../src/ports/store/store.ts";
import { openEmptied } from "../test/support/emptied-postgres.ts";
import { ManualClock } from "../test/support/manual-clock.ts";
import { playSeed } from "./play-seed.ts";
import { SetClock, type ShadowedStore, shadowStore } from "./shadow-store.ts";
import { WHOLE } from "./traffic/cut.ts";

/** Each seed makes about ten thousand calls to the server. */
const SERVER_SEEDS = Number(process.env["SLUICE_SHADOW_SEEDS"] ?? 1);
/** Real time, on a machine that also does other work. */
const SERVER_SEED_LIMIT_MS = 240_000;
test(`${SERVER_SEEDS} seeds of traffic: PostgreSQL answers as the reference model does, and holds the same`, {
  timeout: SERVER_SEEDS * SERVER_SEED_LIMIT_MS,
}, async () => {
  for (let seed = 1; seed <= SERVER_SEEDS; seed++) {
    const time = new SetClock();
    const postgres = await openEmptied(time);
    let shadowed: ShadowedStore | null = null;
    const wrapStore = (memory: MemoryStore, world: Clock): Store => {
      shadowed = shadowStore(memory, postgres, { times: { world, shadow: time } });
      return shadowed.store;
    };
    await playSeed(seed, WHOLE, { store: "memory", wrapStore });
    const { compare } = shadowed as unknown as ShadowedStore;
    expect(await compare.call(shadowed), `seed ${seed}`).toEqual([]);
    await postgres.close();
  }
});

describe("a shadow store", () => {
  /** A store whose shadow is of the same kind, except for the given change. */
  function pair(changes: Partial<Store> = {}): ShadowedStore & { readonly shadow: MemoryStore } {
    const options = { clock: new ManualClock(), sha256: (text: string) => text };
    const shadow = createMemoryStore(options);
    const shadowed = shadowStore(createMemoryStore(options), {
      ...shadow,
      name: "shadow",
      ...changes,
    });
    return Object.assign(shadowed, { shadow });
  }

  test("reports an answer that differs, with its call", async () => {
    const shadowed = pair({ listLanes: async () => [], claim: async () => false });
    await shadowed.store.listLanes();
    expect(await shadowed.store.claim("task", 1, 50)).toBe(true);
    await shadowed.settle();
    expect(shadowed.differences).toEqual([
      {
        call: 2,
        verb: "claim",
        args: ["task", 1, 50],
        problem: "answer: memory has true, shadow has false",
      },
    ]);
  });

  test("reports an act that leaves another state, even when its answer is right", async () => {
    const shadowed = pair({ savePosition: async () => true });
    await shadowed.store.savePosition("reader", 3);
    await shadowed.settle();
    expect(shadowed.differences).toEqual([]);
    expect(await shadowed.compare()).toEqual([
      "state: positions.reader: memory has 3, shadow has 0",
    ]);
  });

  test("reports an error that only one of the two stores throws", async () => {
    const shadowed = pair({ renew: () => Promise.reject(new Error("not today")) });
    const answer = { lost: [], permits: { seq: 0, held: [] } };
    expect(await shadowed.store.renew(1, [], 10)).toEqual(answer);
    expect(await shadowed.compare()).toEqual([
      `call 1, renew(1, [], 10): answer: memory has ${JSON.stringify(answer)}, shadow has (nothing)`,
    ]);
  });

  test("treats errors with the same code as equal", async () => {
    const shadowed = pair();
    const unknown = expect.objectContaining({ code: "NOT_FOUND", kind: "batch" }) as Error;
    await expect(shadowed.store.seal("unknown")).rejects.toEqual(unknown);
    expect(await shadowed.compare()).toEqual([]);
  });

  test("gets calls in the order in which they came, with the arguments of that time", async () => {
    const slow: Partial<Store> = {
      registerWorker: async (facts) => {
        await Promise.resolve();
        return shadowed.shadow.registerWorker(facts);
      },
    };
    const shadowed = pair(slow);
    const serves = [{ pipeline: "p", version: "1" }];
    const calls = [
      shadowed.store.registerWorker({ name: "one" }),
      shadowed.store.registerWorker({ name: "two" }),
      shadowed.store.beat(2, serves, 1_000),
    ];
    serves.pop();
    expect(await Promise.all(calls)).toEqual([1, 2, undefined]);
    expect(await shadowed.compare()).toEqual([]);
    expect(shadowed.shadow.state.workers.get(2)?.serves).toEqual([{ pipeline: "p", version: "1" }]);
  });
});
