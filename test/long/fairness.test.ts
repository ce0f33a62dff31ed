/** A million items of one tenant against twenty thousand of another: `npm run test:long`. */
import { expect, test } from "vitest";
import { checkFairness } from "../chaos/fairness.ts";

const SIZES = {
  concurrency: 4,
  items: 1_000_000,
  lanes: 100,
  chunkSize: 100,
  smallItems: 20_000,
  smallChunkSize: 20,
};
/** Two runs are never the same. */
const NOT_LESS = 0.9;

test("a tenant with one lane gets its share beside one with 100 lanes, even when that one splits finer", async () => {
  const even = await checkFairness({ ...SIZES, weight: 1 });
  const finer = await checkFairness({ ...SIZES, lanes: 400, chunkSize: 10, weight: 1 });
  expect(finer).toBeGreaterThanOrEqual(NOT_LESS * even);
});

test("a tenant with three times the weight gets three quarters", async () => {
  await checkFairness({ ...SIZES, weight: 3 });
});
