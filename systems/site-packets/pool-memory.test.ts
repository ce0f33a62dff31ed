/** The memory settings of the pool's processes. */
import { expect, test } from "vitest";
import { returnFreedMemory } from "./pool-memory.ts";

test("are set unless the user has set them", () => {
  const env: NodeJS.ProcessEnv = { MALLOC_ARENA_MAX: "8" };
  returnFreedMemory(env);
  expect(env).toEqual({ MALLOC_ARENA_MAX: "8", MALLOC_TRIM_THRESHOLD_: "131072" });
});
