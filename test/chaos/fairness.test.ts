/** Fair shares of tenants over four processes, in small; test/long has it in full size. */
import { expect, test } from "vitest";
import { checkFairness } from "./fairness.ts";

/**
 * Chunks are what is shared out. In a stretch of less than a second few large ones would be counted,
 * and the share be off by a tenth either way: with chunks of 20 it was between 0.88 and 1.12.
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

test("a tenant with one lane has its share beside one with 20, and no less when that one splits finer", async () => {
  const even = await checkFairness({ ...SIZES, weight: 1 });
  const finer = await checkFairness({ ...SIZES, lanes: 80, chunkSize: 1, weight: 1 });
  expect(finer).toBeGreaterThanOrEqual(NOT_LESS * even);
});

test("a tenant that weighs three times as much has three quarters", async () => {
  await checkFairness({ ...SIZES, weight: 3 });
});
