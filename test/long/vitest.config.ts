/** The tests that take minutes; apart from the others, so that `npm test` does not run them. */
import { defineConfig } from "vitest/config";

const HOUR_MS = 3_600_000;

export default defineConfig({
  test: {
    name: "long",
    environment: "node",
    include: ["test/long/**/*.test.ts"],
    // Each keeps both cores of a small machine busy by itself.
    fileParallelism: false,
    testTimeout: HOUR_MS,
    hookTimeout: HOUR_MS,
  },
});
