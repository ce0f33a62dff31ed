/**
 * What every rule of the store contract starts from: a fresh store, a clock that the rule moves,
 * and short words for the common acts, so that a test shows only its own subject.
 */
import { test, type TestAPI } from "vitest";
import type { RecordType } from "../../src/core/batch/batch.ts";
import type { StopMode } from "../../src/core/batch/chunk.ts";
import type { DeadLetterFilter } from "../../src/core/items/redrive.ts";
import type { StepSettings } from "../../src/core/batch/step.ts";
import { DEFAULT_WATCH_DELAYS } from "../../src/core/batch/watch.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type {
  ActResult,
  BatchSnapshot,
  PlannedChunk,
  PlanPart,
  PlanResult,
  Submission,
} from "../../src/ports/store/conductor-store.ts";
import type {
  PauseScope,
  RedriveRequest,
  RedriveResult,
} from "../../src/ports/store/operator-store.ts";
import type {
  DeadLetter,
  DeadLetterPage,
  Recount,
  ResultPage,
  StoredRecord,
  StoredResult,
} from "../../src/ports/store/query-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type {
  LeasedChunk,
  LeaseRef,
  LeaseRequest,
  SweepPolicy,
  SweepResult,
  WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { UserSql } from "./user-sql.ts";
import { allOf, manifests, type Said, say } from "./said.ts";

export { allOf, FIRST_DRIVE, manifests, type Said, say, wordsOf } from "./said.ts";

/** Opens a fresh, empty store on the given clock; `dispose` closes and deletes it. */
export type OpenStore = (clock: ManualClock) => Promise<{
  readonly store: Store;
  /** A user's tables beside the store's own, if the store has SQL. */
  readonly openSql?: () => Promise<UserSql>;
  readonly dispose: () => Promise<void>;
}>;

export const LEASE_MS = 15_000;
export const SEAL_WITHIN_MS = 60_000;

/** An operator who acts by hand. */
export const ME = { by: "me", why: null } as const;

export const SWEEP_POLICY: SweepPolicy = {
  watchDelays: DEFAULT_WATCH_DELAYS,
  stallsMax: 3,
  orphanMs: 15 * 60_000,
  staleMs: 6 * 3_600_000,
};

/** One step with the simplest settings: failed items stay failed. */
export const STEP: StepSettings = {
  name: "import",
  chunkSize: 100,
  maxRedrives: 0,
  carries: false,
  budget: null,
  canary: null,
};

/** The settings of a batch with these steps. Each step is `STEP` with the given changes. */
export function steps(...changes: readonly Partial<StepSettings>[]): Submission["settings"] {
  return { strict: false, steps: changes.map((change) => ({ ...STEP, ...change })) };
}

export class Rig<C extends Clock = ManualClock> {
  readonly store: Store;
  readonly clock: C;
  readonly worker: number;
  /** Null if the store has no SQL. */
  readonly openSql: (() => Promise<UserSql>) | null;
  #submitted = 0;
  #parts = 0;

  constructor(store: Store, clock: C, worker: number, openSql: Rig["openSql"] = null) {
    this.store = store;
    this.clock = clock;
    this.worker = worker;
    this.openSql = openSql;
  }

  /** A submission with its own id, input and lane. */
  draft(changes: Partial<Submission> = {}): Submission {
    const n = ++this.#submitted;
    return {
      id: `batch-${n}`,
      pipeline: "import",
      version: "1",
      lane: `lane-${n}`,
      key: null,
      input: `{"n":${n}}`,
      inputHash: `hash-${n}`,
      resume: false,
      open: false,
      sealWithinMs: SEAL_WITHIN_MS,
      deadlineAt: null,
      settings: steps({}),
      ...changes,
    };
  }

  async submit(changes: Partial<Submission> = {}): Promise<BatchSnapshot> {
    return (await this.store.submit(this.draft(changes))).batch;
  }

  /** A batch that is being sliced and has no chunk yet. Returns its id. */
  async slicing(changes: Partial<Submission> = {}): Promise<string> {
    const { id } = await this.submit(changes);
    await this.store.startSlicing(id, false);
    return id;
  }

  /** A batch of chunks of these sizes, ready to be leased. Returns its id. */
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

  /** Appends chunks after the existing ones, or as `changes` says. */
  async plan(
    batch: string,
    chunks: readonly PlannedChunk[],
    changes: Partial<PlanPart> = {},
  ): Promise<PlanResult> {
    const { step, chunks: afterChunks, sliceFence: fence } = await this.get(batch);
    const part = `part-${++this.#parts}`;
    const usual = { batch, step, afterChunks, chunks, cursor: null, fence, part };
    return this.store.plan({ ...usual, ...changes });
  }

  request(changes: Partial<LeaseRequest> = {}): LeaseRequest {
    return {
      worker: this.worker,
      pipeline: "import",
      versions: ["1"],
      step: 0,
      batch: null,
      itemsMax: 1_000,
      chunksMax: 1,
      leaseMs: LEASE_MS,
      slots: 1,
      keeps: [],
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

  /** Returns the lost leases. */
  async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly LeaseRef[]> {
    return (await this.store.renew(this.worker, leases, leaseMs)).lost;
  }

  async report(lease: LeasedChunk, said: Said): Promise<WorkResult["reports"][number]> {
    const { reports } = await this.store.work([say(lease, said)], null);
    return reports[0] ?? "lost";
  }

  /** All items of the chunk succeeded. */
  async settle(lease: LeasedChunk): Promise<WorkResult["reports"][number]> {
    return this.report(lease, { succeeded: allOf(lease) });
  }

  /** Lets a lease expire and sweeps: its worker is presumed dead. */
  async lose(this: Rig, ms = LEASE_MS): Promise<void> {
    this.clock.advance(ms);
    await this.sweep();
  }

  async sweep(changes: Partial<SweepPolicy> = {}): Promise<SweepResult> {
    return this.store.sweep({ ...SWEEP_POLICY, ...changes });
  }

  /** Registers a heartbeat of the worker for this pipeline. */
  async serve(pipeline = "import", version = "1", forMs = 10 ** 9): Promise<void> {
    await this.store.beat(this.worker, [{ pipeline, version }], forMs);
  }

  async cancel(batch: string, mode: StopMode = "now"): Promise<ActResult> {
    return this.store.cancel(batch, { mode, ...ME });
  }

  async pause(
    scope: PauseScope["scope"],
    name: string,
    mode: StopMode = "drain",
  ): Promise<boolean> {
    return this.store.pause({ scope, name, mode, ...ME });
  }

  async resume(scope: PauseScope["scope"], name: string): Promise<boolean> {
    return this.store.resume({ scope, name }, ME);
  }

  /** All of them, at once, unless stated otherwise. */
  async redrive(batch: string, changes: Partial<RedriveRequest> = {}): Promise<RedriveResult> {
    const all = { filter: {}, ceiling: 10 ** 6, perSecond: null, withCancelled: false };
    return this.store.redrive(batch, { ...all, dryRun: false, ...ME, ...changes });
  }

  async edit(batch: string, item: number, value: string, step = 0): Promise<boolean> {
    return this.store.editDeadLetter(batch, { step, item, value, ...ME });
  }

  async discard(batch: string, filter: DeadLetterFilter = {}): Promise<number> {
    return this.store.discardDeadLetters(batch, { filter, ...ME });
  }

  /** Slices the batch's current step into chunks of these sizes. */
  async slice(batch: string, sizes: readonly number[]): Promise<void> {
    await this.store.startSlicing(batch, false);
    if (sizes.length > 0) await this.plan(batch, manifests(...sizes));
    await this.finishSlicing(batch, (await this.get(batch)).chunks);
  }

  /**
   * Leases the due chunks of a batch and makes the same report on each. Returns the number of
   * chunks.
   */
  async runAll(batch: string, said: (lease: LeasedChunk) => Said, step = 0): Promise<number> {
    const leased = await this.lease({ batch, step, chunksMax: 1_000, itemsMax: 10 ** 6 });
    for (const lease of leased) await this.report(lease, said(lease));
    return leased.length;
  }

  async state(batch: string): Promise<BatchSnapshot["state"]> {
    return (await this.get(batch)).state;
  }

  /** The data of the records of one type, in order. */
  async recorded(batch: string, type: RecordType): Promise<readonly Record<string, unknown>[]> {
    const records = (await this.records(batch)).filter((record) => record.type === type);
    return records.map(({ body }) => (JSON.parse(body) as { data: Record<string, unknown> }).data);
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

  /** Everything that can be read about a batch, to show that an act changed nothing. */
  async observe(batch: string): Promise<{ readonly batch: BatchSnapshot }> {
    const seen = {
      batch: await this.get(batch),
      recount: await this.recount(batch),
      results: await this.results(batch),
      deadLetters: await this.letters(batch),
      records: await this.records(batch),
    };
    return seen;
  }

  /** Of the first step, unless stated otherwise. */
  async results(batch: string, page: Partial<ResultPage> = {}): Promise<readonly StoredResult[]> {
    const all = { step: 0, afterItem: -1, limit: 100_000, sinceDrive: 1 };
    return this.store.readResults(batch, { ...all, ...page });
  }

  /** Of the first step, unless stated otherwise. */
  async letters(batch: string, page: Partial<DeadLetterPage> = {}): Promise<readonly DeadLetter[]> {
    const all = { step: 0, afterItem: -1, limit: 100_000, filter: {} };
    return this.store.readDeadLetters(batch, { ...all, ...page });
  }
}

export type Rule = TestAPI<{ readonly rig: Rig }>;

/** `test`, with a fresh store for each. */
export function makeRule(open: OpenStore): Rule {
  return test.extend<{ rig: Rig }>({
    // oxlint-disable-next-line no-empty-pattern -- vitest reads the fixtures that are asked for here
    rig: async ({}, use) => {
      const clock = new ManualClock();
      const { store, openSql = null, dispose } = await open(clock);
      try {
        const worker = await store.registerWorker({ name: "worker" });
        await use(new Rig(store, clock, worker, openSql));
      } finally {
        await dispose();
      }
    },
  });
}
