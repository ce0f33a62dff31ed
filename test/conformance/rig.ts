/**
 * What every rule of the store contract starts from: a fresh store, a clock that the rule moves, and
 * short words for the common acts, so that a test shows only what it is about.
 */
import { test, type TestAPI } from "vitest";
import type { Clock } from "../../src/ports/clock.ts";
import type {
  ActResult,
  BatchSnapshot,
  PlannedChunk,
  PlanPart,
  PlanResult,
  Submission,
} from "../../src/ports/conducting.ts";
import type { Recount, StoredRecord } from "../../src/ports/reading.ts";
import type { Store } from "../../src/ports/store.ts";
import type { LeasedChunk, LeaseRequest, Report, WorkResult } from "../../src/ports/working.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { toMap, toWords, type Word } from "../support/outcome-words.ts";

/** Opens a fresh, empty store on the given clock; `dispose` closes and removes it. */
export type OpenStore = (clock: ManualClock) => Promise<{
  readonly store: Store;
  readonly dispose: () => Promise<void>;
}>;

export const LEASE_MS = 15_000;
export const SEAL_WITHIN_MS = 60_000;

/** What a worker says of its chunk. Positions count from the start of the chunk. */
export interface Said {
  readonly succeeded?: readonly number[];
  readonly skipped?: readonly number[];
  /** Gave up: a dead letter each. */
  readonly failed?: readonly number[];
  /** Tried and waits: position to delay. */
  readonly retryInMs?: Readonly<Record<number, number>>;
  /** Position to JSON text; the item is among `succeeded` as well. */
  readonly results?: Readonly<Record<number, string>>;
  readonly starting?: readonly number[];
  readonly intent?: Report["intent"];
  /** The map that the worker builds upon, if not the one that it was given with its lease. */
  readonly upon?: Uint8Array;
  readonly attempts?: number;
}

/** A report in the words of a test. Without an intent the rest is given back. */
export function say(lease: LeasedChunk, said: Said): Report {
  const { batch, step, chunk, fence } = lease;
  const words = toWords(said.upon ?? lease.outcomes, lease.end - lease.start);
  const mark = (positions: readonly number[] | undefined, word: Word): void => {
    for (const position of positions ?? []) words[position] = word;
  };
  mark(said.succeeded, "succeeded");
  mark(said.skipped, "skipped");
  mark(said.failed, "failed");
  const attempts = said.attempts ?? 1;
  const fail = (index: number, retryInMs: number | null): Report["failures"][number] => ({
    index,
    key: `key-${lease.start + index}`,
    attempts,
    errorClass: retryInMs === null ? "permanent" : "transient",
    code: retryInMs === null ? "BAD_INPUT" : "ECONNRESET",
    message: `item ${lease.start + index} failed`,
    retryInMs,
  });
  return {
    batch,
    step,
    chunk,
    fence,
    outcomes: toMap(words),
    failures: [
      ...(said.failed ?? []).map((index) => fail(index, null)),
      ...Object.entries(said.retryInMs ?? {}).map(([index, ms]) => fail(Number(index), ms)),
    ],
    results: Object.entries(said.results ?? {}).map(([index, value]) => ({
      index: Number(index),
      key: `key-${lease.start + Number(index)}`,
      value,
    })),
    starting: said.starting ?? [],
    intent: said.intent ?? "yield",
  };
}

/** Every position of a chunk. */
export function allOf(lease: LeasedChunk): number[] {
  return Array.from({ length: lease.end - lease.start }, (_, position) => position);
}

export function wordsOf(lease: LeasedChunk): Word[] {
  return toWords(lease.outcomes, lease.end - lease.start);
}

/** Chunks of these sizes, each with a manifest of its own. */
export function manifests(...sizes: readonly number[]): PlannedChunk[] {
  return sizes.map((items, chunk) => ({
    items,
    locator: null,
    manifest: new TextEncoder().encode(`${chunk}:${items}`),
    keys: null,
  }));
}

export class Rig<C extends Clock = ManualClock> {
  readonly store: Store;
  readonly clock: C;
  readonly worker: number;
  #submitted = 0;
  #parts = 0;

  constructor(store: Store, clock: C, worker: number) {
    this.store = store;
    this.clock = clock;
    this.worker = worker;
  }

  /** A submission that differs from every other one in its id and its input. */
  draft(changes: Partial<Submission> = {}): Submission {
    const n = ++this.#submitted;
    return {
      id: `batch-${n}`,
      pipeline: "import",
      version: "1",
      lane: "main",
      key: null,
      input: `{"n":${n}}`,
      inputHash: `hash-${n}`,
      resume: false,
      open: false,
      sealWithinMs: SEAL_WITHIN_MS,
      settings: { chunkSize: 100, strict: false },
      ...changes,
    };
  }

  async submit(changes: Partial<Submission> = {}): Promise<BatchSnapshot> {
    return (await this.store.submit(this.draft(changes))).batch;
  }

  /** A batch that is being sliced and has no chunk yet; answers its id. */
  async slicing(changes: Partial<Submission> = {}): Promise<string> {
    const { id } = await this.submit(changes);
    await this.store.startSlicing(id, false);
    return id;
  }

  /** A batch of chunks of these sizes, ready to be worked on; answers its id. */
  async running(sizes: readonly number[], changes: Partial<Submission> = {}): Promise<string> {
    const id = await this.slicing(changes);
    if (sizes.length > 0) await this.plan(id, manifests(...sizes));
    await this.finishSlicing(id, sizes.length);
    return id;
  }

  /** As the newest slicer. */
  async finishSlicing(id: string, chunks: number): Promise<ActResult> {
    return this.store.finishSlicing(id, chunks, (await this.get(id)).sliceFence);
  }

  /** Appends chunks after what is there, or as `changes` says. */
  async plan(
    batch: string,
    chunks: readonly PlannedChunk[],
    changes: Partial<PlanPart> = {},
  ): Promise<PlanResult> {
    const { chunks: afterChunks, sliceFence: fence } = await this.get(batch);
    const part = `part-${++this.#parts}`;
    const usual = { batch, step: 0, afterChunks, chunks, cursor: null, fence, part };
    return this.store.plan({ ...usual, ...changes });
  }

  request(changes: Partial<LeaseRequest> = {}): LeaseRequest {
    return {
      worker: this.worker,
      pipeline: "import",
      versions: ["1"],
      batch: null,
      itemsMax: 1_000,
      chunksMax: 1,
      leaseMs: LEASE_MS,
      ...changes,
    };
  }

  async look(changes: Partial<LeaseRequest> = {}): Promise<WorkResult> {
    return this.store.work([], this.request(changes));
  }

  async lease(changes: Partial<LeaseRequest> = {}): Promise<readonly LeasedChunk[]> {
    return (await this.look(changes)).leased;
  }

  /** Leases exactly one chunk. */
  async leaseOne(changes: Partial<LeaseRequest> = {}): Promise<LeasedChunk> {
    const [lease] = await this.lease({ chunksMax: 1, ...changes });
    if (lease === undefined) throw new Error("there was nothing to lease");
    return lease;
  }

  async report(lease: LeasedChunk, said: Said): Promise<WorkResult["reports"][number]> {
    const { reports } = await this.store.work([say(lease, said)], null);
    return reports[0] ?? "lost";
  }

  /** Everything in the chunk succeeded. */
  async settle(lease: LeasedChunk): Promise<WorkResult["reports"][number]> {
    return this.report(lease, { succeeded: allOf(lease) });
  }

  /** Lets a lease run out and sweeps it up: its worker is taken for dead. */
  async lose(this: Rig, ms = LEASE_MS): Promise<void> {
    this.clock.advance(ms);
    await this.store.sweep();
  }

  async get(batch: string): Promise<BatchSnapshot> {
    const snapshot = await this.store.getBatch(batch);
    if (snapshot === null) throw new Error(`there is no batch ${batch}`);
    return snapshot;
  }

  async recount(batch: string): Promise<Recount> {
    const recount = await this.store.recount(batch);
    if (recount === null) throw new Error(`there is no batch ${batch}`);
    return recount;
  }

  async records(batch: string): Promise<readonly StoredRecord[]> {
    return this.store.readRecords(batch, 0, 1_000);
  }

  async recordTypes(batch: string): Promise<string[]> {
    return (await this.records(batch)).map(({ type }) => type);
  }

  /** Everything an observer can see of a batch, to show that an act changed nothing. */
  async observe(batch: string): Promise<{ readonly batch: BatchSnapshot }> {
    const page = { afterItem: -1, limit: 10_000 };
    const seen = {
      batch: await this.get(batch),
      recount: await this.recount(batch),
      results: await this.store.readResults(batch, page),
      deadLetters: await this.store.readDeadLetters(batch, page),
      records: await this.records(batch),
    };
    return seen;
  }
}

export type Rule = TestAPI<{ readonly rig: Rig }>;

/** `test`, with a fresh rig on a fresh store for each. */
export function makeRule(open: OpenStore): Rule {
  return test.extend<{ rig: Rig }>({
    // oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures that are asked for here
    rig: async ({}, use) => {
      const clock = new ManualClock();
      const { store, dispose } = await open(clock);
      try {
        const worker = await store.registerWorker({ name: "worker", pipelines: ["import"] });
        await use(new Rig(store, clock, worker));
      } finally {
        await dispose();
      }
    },
  });
}
