/**
 * What every test of a running engine starts from: a fresh store, and engines on it that are closed
 * when the test is over. In real time: tests wait for signals, never for a fixed time.
 */
import { hash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestAPI } from "vitest";
import { createMemoryStore } from "../../../src/adapters/memory/store.ts";
import { openSqliteStore } from "../../../src/adapters/sqlite/store.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { BatchSnapshot } from "../../../src/ports/store/conductor-store.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { BatchEvent } from "../../../src/ports/store/batch-event.ts";
import { readEvent } from "../../../src/runtime/delivering/batch-event.ts";
import { Engine, type StartOptions } from "../../../src/runtime/engine/engine.ts";
import type { LogEntry } from "../../../src/runtime/system/log.ts";
import type { Tuning } from "../../../src/runtime/system/settings.ts";
import { systemClock } from "../../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../../src/runtime/system/system-random.ts";

/** Opens the store again, as another process does; a store in memory is itself. */
type OpenAgain = () => Promise<Store>;

const CLOSE_LIMIT_MS = 20_000;
const RECORDS_MAX = 10_000;

/** The system's clock, but a test can move the wall clock by days. */
export interface TestClock extends Clock {
  passWallMs(ms: number): void;
}

function makeTestClock(): TestClock {
  let passed = 0;
  return {
    ...systemClock,
    wallMs: () => systemClock.wallMs() + passed,
    passWallMs: (ms) => {
      passed += ms;
    },
  };
}

/** With what users cannot set, for tests that need it small. */
type RigOptions = StartOptions & { readonly tuning?: Tuning };

export class EngineRig {
  readonly store: Store;
  readonly clock: TestClock;
  /** A folder for the files of the test. */
  readonly folder: string;
  readonly logs: LogEntry[] = [];
  readonly #openAgain: OpenAgain;
  readonly #engines: Engine[] = [];
  readonly #stores: Store[] = [];

  constructor(store: Store, folder: string, clock: TestClock, openAgain: OpenAgain) {
    this.store = store;
    this.clock = clock;
    this.folder = folder;
    this.#openAgain = openAgain;
  }

  async start(given: RigOptions = {}, store: Store = this.store): Promise<Engine> {
    const { tuning, ...options } = given;
    const log = (entry: LogEntry): void => void this.logs.push(entry);
    const engine = await Engine.start(store, { log, clock: this.clock, ...options }, tuning);
    this.#engines.push(engine);
    return engine;
  }

  /** An engine with its own connection. */
  async startBeside(options: RigOptions = {}): Promise<Engine> {
    const store = await this.#openAgain();
    if (store !== this.store) this.#stores.push(store);
    return this.start(options, store);
  }

  /** The records of a batch until now, or of all batches. */
  async records(batch: string | null = null): Promise<(BatchEvent & { position: number })[]> {
    const records = await this.store.readRecords(batch, 0, RECORDS_MAX);
    return records.map((record) => ({ ...readEvent(record), position: record.position }));
  }

  async recordsOf(batch: string, type: BatchEvent["type"]): Promise<BatchEvent["data"][]> {
    const records = await this.records(batch);
    return records.filter((record) => record.type === type).map(({ data }) => data);
  }

  async getBatch(id: string): Promise<BatchSnapshot> {
    const batch = await this.store.getBatch(id);
    if (batch === null) throw new Error(`there is no batch ${id}`);
    return batch;
  }

  /** Resolves with the batch when the condition holds. */
  async untilBatch(id: string, holds: (batch: BatchSnapshot) => boolean): Promise<BatchSnapshot> {
    for (;;) {
      const batch = await this.getBatch(id);
      if (holds(batch)) return batch;
      await nextTurn();
    }
  }

  /** Resolves when no worker has a lease on the batch. */
  async untilLetGo(id: string): Promise<void> {
    while ((await this.store.readWaiting(id, 1))?.batch.leased !== 0) await nextTurn();
  }

  async dispose(): Promise<void> {
    // An engine that does not close fails its own test; it does not block all tests.
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
  memory: async (_folder: string, clock: Clock): Promise<[Store, OpenAgain]> => {
    const store = createMemoryStore({
      clock,
      sha256: (text) => hash("sha256", text),
    });
    return [store, async () => store];
  },
  sqlite: async (folder: string, clock: Clock): Promise<[Store, OpenAgain]> => {
    const open = (): Promise<Store> =>
      openSqliteStore(join(folder, "store.db"), {
        clock,
        random: systemRandom,
        synchronous: "normal",
      });
    return [await open(), open];
  },
} as const;

/** The same tests on each kind of store, each with a fresh store. */
export function describeOnStores(title: string, define: (test: EngineTest) => void): void {
  for (const [name, open] of Object.entries(STORES)) {
    describe(`${title} (${name})`, () => {
      define(test.extend<{ rig: EngineRig }>({
        // oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures that are asked for here
        rig: async ({}, use) => {
          const folder = await mkdtemp(join(tmpdir(), "sluice-engine-"));
          const clock = makeTestClock();
          const [store, openAgain] = await open(folder, clock);
          const rig = new EngineRig(store, folder, clock, openAgain);
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

/** A promise that a handler awaits and the test resolves. */
export interface Signal {
  readonly wait: Promise<void>;
  readonly give: () => void;
}

export function makeSignal(): Signal {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { wait: promise, give: () => resolve() };
}

/** A promise that never settles, for a handler that never returns. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}

export async function collect<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}

/** To sort numbers by. */
export const ascending = (a: number, b: number): number => a - b;

export function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Resolves when the condition holds. It is checked whenever the event loop is idle. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await nextTurn();
}

/** Lets timers and I/O run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
