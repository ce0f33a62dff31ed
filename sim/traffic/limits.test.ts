/** Limits in small worlds: items whose check takes long, and servers that refuse. */
import { describe, expect, test } from "vitest";
import type { Doing } from "./errand.ts";
import type { RatePlot } from "./limits.ts";
import { makeErrand, makeStepPlot, makeTraffic } from "./plots.ts";
import { playTrafficRight } from "./traffic.ts";

const RATE: RatePlot = {
  name: "alpha",
  keys: 1,
  every: { perSecond: 2, burst: 1 },
  own: {},
  tokensMax: 1,
};

const succeed: Doing = { does: "succeed" };
const items = (count: number): Doing[] => Array.from({ length: count }, () => succeed);

describe("items whose check takes longer than a token is valid", () => {
  const step = makeStepPlot({ rate: RATE, checkMaxMs: 3_000, timeLimitMs: 20_000 });

  test("start nevertheless, each within its rate", async () => {
    const { errands } = await playTrafficRight(makeTraffic([step], [makeErrand([items(6)])]));
    expect(errands.runs).toHaveLength(6);
  });

  test.each([1, 2, 3])(
    "start within their rate after a worker died of one, seed %i",
    async (seed) => {
      const doings: Doing[] = [{ does: "murder", times: 1 }, ...items(5)];
      const plot = makeTraffic([step], [makeErrand([doings])], { seed, helpers: 2 });
      const { errands } = await playTrafficRight(plot);
      expect(new Set(errands.runs.map(({ index }) => index)).size).toBe(6);
    },
  );
});

describe("a paced batch whose items meet an outage", () => {
  const pace = { items: 1, everyMs: 200, smooth: false, quiet: [], outageMs: 5_000 };
  const retry = { attempts: 1, baseMs: 40, capMs: 200 };

  test.each([false, true])(
    "starts nothing for a while and counts no try, by chunk %s",
    async (byChunk) => {
      const step = makeStepPlot({ pace, retry, byChunk, timeLimitMs: 20_000 });
      const doings: Doing[] = [{ does: "outage", times: 2 }, ...items(3)];
      const { errands, world } = await playTrafficRight(
        makeTraffic([step], [makeErrand([doings])]),
      );
      const tries = errands.runs.filter(({ parcel }) => parcel.n === 0);
      expect(tries.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
      const [batch] = world.store.state.batches.values();
      expect(batch?.state).toBe("succeeded");
    },
  );
});
