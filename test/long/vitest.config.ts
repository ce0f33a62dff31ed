/** The tests that take minutes, separate from the others, so that `npm test` does not run them. */
import { defineConfig } from "vitest/config";

const HOUR_MS = 3_600_000;

export default defineConfig({
  test: {
    name: "long",
    environment: "node",
    include: ["test/long/**/*.test.ts"],
    // Each uses both cores of a small machine.
    fileParallelism: false,
    testTimeout: HOUR_MS,
    hookTimeout: HOUR_MS,
  },
});
