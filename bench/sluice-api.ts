/**
 * The seam between the harness and the engine: everything that the Sluice subjects use of Sluice.
 * They measure what is built (`dist/`), as a user's program would load it. The folder bench/ is a
 * package of its own for its peers, so the engine is found by its place, not by its name.
 *
 * The interfaces are a sketch from before the engine could be imported: when it can, this file
 * becomes two lines, `export { ... } from "../dist/index.js"` and `... from "../dist/sqlite.js"`, and
 * the compiler checks the subjects against the real API.
 */
import { existsSync } from "node:fs";
import type { BatchSnapshot } from "../src/ports/conducting.ts";
import type { Source } from "../src/ports/source.ts";
import type { Store } from "../src/ports/store.ts";

export interface Handle {
  /** Resolves when the batch has ended, however it ended. */
  wait(): Promise<BatchSnapshot>;
}

export interface Pipeline<Input> {
  readonly name: string;
  readonly source: (input: Input) => Source | Iterable<unknown>;
  readonly chunkSize: number;
  readonly concurrency: number;
  readonly handler: (item: unknown) => Promise<void>;
}

export interface Engine {
  submit<Input>(pipeline: Pipeline<Input>, input: Input): Promise<Handle>;
  close(): Promise<void>;
}

interface SluiceModule {
  readonly createEngine: (options: {
    readonly store: string;
    readonly pipelines: readonly Pipeline<never>[];
  }) => Promise<Engine>;
  readonly definePipeline: <Input>(pipeline: Pipeline<Input>) => Pipeline<Input>;
  readonly jsonl: (path: string) => Source;
}

interface SqliteModule {
  readonly openSqliteStore: (path: string) => Promise<Store>;
}

async function importBuilt<Module>(file: string): Promise<Module> {
  const url = new URL(`../dist/${file}`, import.meta.url);
  if (!existsSync(url)) {
    throw new Error(`Sluice's dist/${file} is not there: npm run build makes it`);
  }
  return (await import(url.href)) as Module;
}

export const loadSluice = (): Promise<SluiceModule> => importBuilt("index.js");
export const loadSqliteStore = (): Promise<SqliteModule> => importBuilt("sqlite.js");
