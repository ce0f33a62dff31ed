/**
 * What every test of the running engine starts from: a fresh store, and engines on it that are
 * closed when the test is over. With real time: tests wait for signals, never for a while.
 */
import { hash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestAPI } from "vitest";
import { createMemoryStore } from "../../../src/adapters/memory/store.ts";
import { openSqliteStore } from "../../../src/adapters/sqlite/store.ts";
import type { Store } from "../../../src/ports/store.ts";
import { Engine, type EngineOptions } from "../../../src/runtime/engine.ts";
import type { LogEntry } from "../../../src/runtime/log.ts";
import { systemClock } from "../../../src/runtime/system-clock.ts";
import { systemRandom } from "../../../src/runtime/system-random.ts";

/** Opens the store once more, as another process would; a store in memory is its own other. */
type OpenAgain = () => Promise<Store>;

const CLOSE_LIMIT_MS = 20_000;

export class EngineRig {
  readonly store: Store;
  /** A folder for whatever the test writes. */
  readonly folder: string;
  readonly logs: LogEntry[] = [];
  readonly #openAgain: OpenAgain;
  readonly #engines: Engine[] = [];
  readonly #stores: Store[] = [];

  constructor(store: Store, folder: string, openAgain: OpenAgain) {
    this.store = store;
    this.folder = folder;
    this.#openAgain = openAgain;
  }

  async start(options: EngineOptions = {}, store: Store = this.store): Promise<Engine> {
    const log = (entry: LogEntry): void => void this.logs.push(entry);
    const engine = await Engine.start(store, { log, ...options });
    this.#engines.push(engine);
    return engine;
  }

  /** An engine on a connection of its own. */
  async startBeside(options: EngineOptions = {}): Promise<Engine> {
    const store = await this.#openAgain();
    if (store !== this.store) this.#stores.push(store);
    return this.start(options, store);
  }

  async dispose(): Promise<void> {
    // An engine that does not close is a failure of its test, not a hang of all of them.
    const tooLate = new Promise<never>((_resolve, reject) => {
      setTimeout(() => reject(new Error("an engine does not close")), CLOSE_LIMIT_MS).unref();
    });
    const closing = Promise.all(this.#engines.map((engine) => engine.close({ drainMs: 0 })));
    await Promise.race([closing, tooLate]);
    for (const store of [...this.#stores, this.store]) await store.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

export type EngineTest = TestAPI<{ readonly rig: EngineRig }>;

const STORES = {
  memory: async (): Promise<[Store, OpenAgain]> => {
    const store = createMemoryStore({
      clock: systemClock,
      sha256: (text) => hash("sha256", text),
    });
    return [store, async () => store];
  },
  sqlite: async (folder: string): Promise<[Store, OpenAgain]> => {
    const open = (): Promise<Store> =>
      openSqliteStore(join(folder, "store.db"), {
        clock: systemClock,
        random: systemRandom,
        synchronous: "normal",
      });
    return [await open(), open];
  },
} as const;

/** The same tests on each kind of store, each with a fresh one. */
export function describeOnStores(title: string, define: (test: EngineTest) => void): void {
  for (const [name, open] of Object.entries(STORES)) {
    describe(`${title} (${name})`, () => {
      define(test.extend<{ rig: EngineRig }>({
        // oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures that are asked for here
        rig: async ({}, use) => {
          const folder = await mkdtemp(join(tmpdir(), "sluice-engine-"));
          const [store, openAgain] = await open(folder);
          const rig = new EngineRig(store, folder, openAgain);
          try {
            await use(rig);
          } finally {
            await rig.dispose();
          }
        },
      }));
    });
  }
}

/** A promise that a handler waits for, and the test resolves. */
export interface Signal {
  readonly wait: Promise<void>;
  readonly give: () => void;
}

export function makeSignal(): Signal {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { wait: promise, give: () => resolve() };
}

/** What a handler that never comes back waits for. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}

export async function collect<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}

export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Resolves when the condition holds; looked at whenever the event loop has nothing else to do. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}
