import { describe, expect, it } from "vitest";
import { computeDepth, mergeLoads, NO_LOAD } from "./load.ts";

const load = { pipeline: "p", ...NO_LOAD };

describe("depth", () => {
  it("items that never ran are ready", () => {
    expect(computeDepth({ ...load, pending: 50, fresh: 50 })).toMatchObject({
      ready: 50,
      leased: 0,
    });
  });

  it("without waiting chunks, all started items are leased, however much of them is done", () => {
    const facts = { ...load, pending: 60, fresh: 40, leasedChunks: 3, leasedItems: 30 };
    expect(computeDepth(facts)).toMatchObject({ ready: 40, leased: 20, delayed: 0 });
  });

  it("without leased chunks, started items wait, and are ready when due", () => {
    const facts = { ...load, pending: 10, fresh: 0, waitingChunks: 5, dueChunks: 2 };
    expect(computeDepth(facts)).toMatchObject({ ready: 4, leased: 0, delayed: 6 });
  });

  it("the sum is exact, whatever the parts", () => {
    for (let n = 0; n < 200; n++) {
      const pending = (n * 37) % 101;
      const facts = {
        ...load,
        pending,
        fresh: (n * 13) % (pending + 1),
        leasedItems: (n * 7) % 50,
        waitingChunks: n % 4,
        dueChunks: n % 4 === 0 ? 0 : n % 2,
      };
      const { ready, leased, delayed } = computeDepth(facts);
      expect(ready + leased + delayed).toBe(pending);
      expect(Math.min(ready, leased, delayed)).toBeGreaterThanOrEqual(0);
    }
  });
});

describe("answers about one pipeline", () => {
  it("are merged, in the order of names", () => {
    const merged = mergeLoads([
      { pipeline: "b", planned: 3, done: 1 },
      { pipeline: "a", workers: 2 },
      { pipeline: "b", plannedEnded: 4, doneEnded: 4 },
      { pipeline: "b", leasedChunks: 1, leasedItems: 10 },
    ]);
    expect(merged.map(({ pipeline }) => pipeline)).toEqual(["a", "b"]);
    expect(merged[1]).toMatchObject({
      planned: 3,
      done: 1,
      plannedEnded: 4,
      doneEnded: 4,
      leasedChunks: 1,
      leasedItems: 10,
    });
  });
});
