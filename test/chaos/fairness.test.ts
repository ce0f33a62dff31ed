/** Fair shares of tenants over four processes, in small size; test/long has the full size. */
import { expect, test } from "vitest";
import { checkFairness } from "./fairness.ts";

/**
 * Chunks are the unit of sharing. A period of less than a second contains few large chunks, and the
 * share would vary by a tenth: with chunks of 20 it was between 0.88 and 1.12.
 */
const SIZES = {
  concurrency: 1,
  items: 20_000,
  lanes: 20,
  chunkSize: 5,
  smallItems: 1_000,
  smallChunkSize: 5,
};
/** Two runs are never the same. */
const NOT_LESS = 0.9;

test("a tenant with one lane gets its share beside one with 20 lanes, even when that one splits finer", async () => {
  const even = await checkFairness({ ...SIZES, weight: 1 });
  const finer = await checkFairness({ ...SIZES, lanes: 80, chunkSize: 1, weight: 1 });
  expect(finer).toBeGreaterThanOrEqual(NOT_LESS * even);
});

test("a tenant with three times the weight gets three quarters", async () => {
  await checkFairness({ ...SIZES, weight: 3 });
});
