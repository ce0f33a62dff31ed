/** Runs a batch in a real engine on its own file and returns what happened. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeadLetter } from "../../../src/ports/store/query-store.ts";
import type { BatchProgress } from "../../../src/runtime/engine/batch-handle.ts";
import type { LogEntry } from "../../../src/runtime/system/log.ts";
import type { Pipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { createEngine, type EngineOptions } from "../../../src/create-engine.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";

export const TASKS = new URL("./tasks.ts", import.meta.url);

export interface Ran<Result> {
  readonly progress: BatchProgress;
  readonly letters: readonly DeadLetter[];
  readonly results: readonly Result[];
}

export interface Rig {
  readonly engine: Engine;
  readonly logs: readonly LogEntry[];
  run<Item, Result>(
    pipeline: Pipeline<Item, Iterable<Item> | AsyncIterable<Item>, Result>,
    items: readonly Item[],
  ): Promise<Ran<Result>>;
}

/** The engine is closed and its files are deleted when the test is over. */
export async function withEngine(
  options: EngineOptions,
  use: (rig: Rig) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-cpu-"));
  const logs: LogEntry[] = [];
  const engine = await createEngine({
    store: join(folder, "store.db"),
    synchronous: "normal",
    log: (entry) => void logs.push(entry),
    ...options,
  });
  try {
    await use({
      engine,
      logs,
      run: async (pipeline, items) => {
        const batch = await engine.submit(pipeline, items);
        const progress = await batch.wait();
        const letters = await collect(batch.deadLetters());
        const results = await collect(batch.results());
        return { progress, letters, results: results.map(({ value }) => value) };
      },
    });
  } finally {
    await engine.close({ drainMs: 0 });
    await rm(folder, { recursive: true, force: true });
  }
}

async function collect<One>(all: AsyncIterable<One>): Promise<One[]> {
  const list: One[] = [];
  for await (const one of all) list.push(one);
  return list;
}

/** Whether a process with that number exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) {
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
}
