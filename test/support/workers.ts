/** Engines in virtual time that run the same pipelines. */
import { expect } from "vitest";
import type { BatchHandle, Engine } from "../../src/index.ts";
import type { World } from "../../src/testing.ts";

type AnyPipeline = Parameters<Engine["work"]>[0];

/** A number of engines; the first can be used to submit. */
export async function startWorkers(
  world: World,
  workers: number,
  ...pipelines: readonly AnyPipeline[]
): Promise<readonly [Engine, ...Engine[]]> {
  const engines = await Promise.all(Array.from({ length: workers }, () => world.startEngine()));
  for (const engine of engines) for (const pipeline of pipelines) engine.work(pipeline);
  return engines as [Engine, ...Engine[]];
}

/** Each of them succeeds. */
export async function waitForAll(batches: readonly BatchHandle[]): Promise<void> {
  for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
}
