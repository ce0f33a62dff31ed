/**
 * Both stores side by side on one clock, with the oracle that predicts their answers and the
 * witness that checks the promises. Every act runs on both, is compared, and is followed by a look
 * at everything.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { createMemoryStore } from "../../src/adapters/memory/store.ts";
import { ENDED_STATES } from "../../src/core/batch/batch.ts";
import type {
  InlineResult,
  PlanPart,
  PlanResult,
  Submission,
} from "../../src/ports/store/conductor-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type {
  LeaseRef,
  LeaseRequest,
  Report,
  SweepPolicy,
  WorkResult,
  RenewResult,
} from "../../src/ports/store/worker-store.ts";
import { NO_PERMITS } from "../support/permits.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type Batch, hasEnded, lettersOf } from "./oracle-batch.ts";
import { OperatedOracle } from "./oracle-operator.ts";
import { ChainReader, hush } from "./chain-reader.ts";
import type { Rival } from "./rivals.ts";
import { Witness } from "./witness.ts";
import type { BatchView } from "./witness-checks.ts";

export interface Pair {
  readonly memory: Store;
  readonly rival: Store;
}

const EVERYTHING = { afterItem: -1, limit: 1_000, sinceDrive: 1, filter: {} };
/** Queries for why things wait are expensive: one in so many is enough over many runs. */
const LOOKS_AROUND_EVERY = 4;
const LONG_MS = 10 ** 12;
/** Nothing is given up because a worker is missing: only the commands cause stalls. */
const PATIENT: SweepPolicy = {
  watchDelays: { steps: [], elseMs: 60_000, stallMs: 60_000 },
  stallsMax: LONG_MS,
  orphanMs: LONG_MS,
  staleMs: LONG_MS,
};
const SERVED = ["p", "q"].flatMap((pipeline) =>
  ["1", "2"].map((version) => ({ pipeline, version })),
);

/** As many as the commands use. */
const REGISTERED = 4;

export async function openPair(clock: ManualClock, { open }: Rival): Promise<Pair> {
  const pair = {
    memory: createMemoryStore({ clock, sha256: (text) => hash("sha256", text) }),
    rival: await open(clock),
  };
  for (const store of [pair.memory, pair.rival]) {
    await store.beat(await store.registerWorker({ name: "all" }), SERVED, LONG_MS);
    for (let more = 1; more < REGISTERED; more++) await store.registerWorker({ name: "one" });
  }
  return pair;
}

export async function closePair({ memory, rival }: Pair): Promise<void> {
  await memory.close();
  await rival.close();
}

export class Scene {
  readonly clock: ManualClock;
  readonly oracle: OperatedOracle;
  readonly witness = new Witness();
  /** Ended batches that were checked: they are checked again only now and then. */
  readonly #settled = new Set<string>();
  #chains = new ChainReader();
  #looks = 0;

  constructor(clock: ManualClock) {
    this.clock = clock;
    this.oracle = new OperatedOracle(clock);
  }

  /** The batch with a number, modulo the number of batches. */
  pick(which: number): Batch {
    const { batches } = this.oracle;
    const batch = batches[which % batches.length];
    assert(batch !== undefined, "there is a batch to pick");
    return batch;
  }

  async submit(pair: Pair, submission: Submission): Promise<void> {
    await this.act(pair, (store) => store.submit(submission), this.oracle.submit(submission));
  }

  async startSlicing(pair: Pair, id: string, afresh: boolean): Promise<void> {
    if (afresh && this.oracle.find(id).state === "slicing") this.witness.seeAfresh(id);
    const expected = this.oracle.startSlicing(id, afresh);
    await this.act(pair, (store) => store.startSlicing(id, afresh), expected);
  }

  async plan(pair: Pair, part: PlanPart): Promise<PlanResult> {
    const expected = this.oracle.plan(part);
    this.witness.seePlan(part, expected);
    return this.act(pair, (store) => store.plan(part), expected);
  }

  /** As the newest slicer, or as one with a stale fence. */
  async finishSlicing(pair: Pair, id: string, chunks: number, late = 0): Promise<void> {
    const batch = this.oracle.find(id);
    const fence = batch.steps[batch.step]!.sliceFence - late;
    const expected = this.oracle.finishSlicing(id, chunks, fence);
    await this.act(pair, (store) => store.finishSlicing(id, chunks, fence), expected);
  }

  async planInline(pair: Pair, part: PlanPart, request: LeaseRequest): Promise<InlineResult> {
    const now = this.clock.monotonicMs();
    const expected = this.oracle.planInline(part, request);
    const call = (store: Store): Promise<InlineResult> => store.planInline(part, request);
    const answer = await this.compare(pair, call, expected);
    if (answer.kind === "leased" || answer.kind === "planned") {
      this.witness.seePlan(part, { kind: "planned", chunks: 1 });
    }
    if (answer.kind === "leased") this.witness.seeLease(answer.chunk, now, request.leaseMs);
    await this.lookAtBoth(pair);
    return answer;
  }

  async seal(pair: Pair, id: string): Promise<void> {
    await this.act(pair, (store) => store.seal(id), this.oracle.seal(id));
  }

  async fail(pair: Pair, id: string): Promise<void> {
    const reason = { code: "BUDGET", message: "too many failures" };
    await this.act(pair, (store) => store.fail(id, reason), this.oracle.fail(id, reason));
  }

  async work(
    pair: Pair,
    reports: readonly Report[],
    request: LeaseRequest | null,
  ): Promise<WorkResult> {
    const now = this.clock.monotonicMs();
    const stale = reports.length > 0 && request === null;
    const before = stale ? await this.#look(pair.rival) : null;
    const answer = await this.compare(
      pair,
      (store) => store.work(reports, request),
      ({ leased }) => this.oracle.work(reports, request, leased),
    );
    for (const [index, report] of reports.entries()) {
      this.witness.seeReport(report, answer.reports[index]!);
    }
    for (const lease of answer.leased) this.witness.seeLease(lease, now, request?.leaseMs ?? 0);
    await this.lookAtBoth(pair);
    if (before !== null && answer.reports.every((one) => one === "lost")) {
      assert.deepEqual(await this.#look(pair.rival), before, "lost reports change nothing");
    }
    return answer;
  }

  async renew(
    pair: Pair,
    worker: number,
    leases: readonly LeaseRef[],
    leaseMs: number,
  ): Promise<void> {
    const expected = { lost: this.oracle.renew(leases, leaseMs), permits: NO_PERMITS };
    const renewal = (store: Store): Promise<RenewResult> => store.renew(worker, leases, leaseMs);
    const { lost } = await this.act(pair, renewal, expected);
    this.witness.seeRenewal(leases, lost, this.clock.monotonicMs() + leaseMs);
  }

  async sweep(pair: Pair): Promise<void> {
    const sorted = async (store: Store): Promise<object> => {
      const { ended, ...counts } = await store.sweep(PATIENT);
      // The order in which one sweep ends several batches is not promised.
      return { ...counts, ended: ended.toSorted() };
    };
    const { lostLeases, tended, ended } = this.oracle.sweep();
    await this.compare(pair, sorted, { lostLeases, tended, ended: ended.toSorted() });
    this.witness.seeSweep(this.clock.monotonicMs(), lostLeases);
    await this.lookAtBoth(pair);
  }

  async claim(pair: Pair, task: string, worker: number, forMs: number): Promise<void> {
    const expected = this.oracle.claim(task, worker, forMs);
    await this.act(pair, (store) => store.claim(task, worker, forMs), expected);
  }

  async unclaim(pair: Pair, task: string, worker: number): Promise<void> {
    this.oracle.unclaim(task, worker);
    await this.act(pair, (store) => store.unclaim(task, worker), undefined);
  }

  /**
   * Lists of several batches and pages of lists are expensive, so they are checked once in a run.
   */
  async checkLists({ memory, rival }: Pair): Promise<void> {
    const newestFirst = this.oracle.batches
      .map((batch) => this.oracle.describe(batch))
      .toReversed();
    for (const store of [memory, rival]) {
      assert.deepEqual(hush(await store.listBatches({ limit: 3 })), newestFirst.slice(0, 3));
      const ended = newestFirst.filter(({ endedAt }) => endedAt !== null);
      const states = ENDED_STATES;
      assert.deepEqual(hush(await store.listBatches({ limit: 99, states })), ended);
      for (const { id, steps } of newestFirst) {
        for (const step of steps.keys()) await checkPages(store, id, step);
      }
    }
    this.#settled.clear();
    this.#chains = new ChainReader();
    await this.lookAtBoth({ memory, rival });
  }

  protected async act<T>(pair: Pair, call: (store: Store) => Promise<T>, expected: T): Promise<T> {
    const answer = await this.compare(pair, call, expected);
    await this.lookAtBoth(pair);
    return answer;
  }

  protected async compare<T>(
    pair: Pair,
    call: (store: Store) => Promise<T>,
    expected: T | ((answer: T) => T),
  ): Promise<T> {
    const fromMemory = await call(pair.memory);
    const fromRival = await call(pair.rival);
    assert.deepEqual(fromRival, fromMemory, "SQLite answers as the reference model does");
    const foretold =
      typeof expected === "function" ? (expected as (answer: T) => T)(fromMemory) : expected;
    assert.deepEqual(hush(fromMemory), foretold, "the reference model answers as the oracle does");
    return fromMemory;
  }

  protected async lookAtBoth(pair: Pair): Promise<void> {
    const [inMemory, inRival] = [await this.#look(pair.memory), await this.#look(pair.rival)];
    assert.deepEqual(inRival, inMemory, "SQLite holds what the reference model holds");
    assert.deepEqual(inMemory, this.#predict(), "the reference model holds what the oracle holds");
    if (this.#looks++ % LOOKS_AROUND_EVERY === 0) {
      const [byRival, byMemory] = [this.#lookAround(pair.rival), this.#lookAround(pair.memory)];
      assert.deepEqual(await byRival, await byMemory, "both give the same reason for waiting");
    }
    this.witness.checkAll(inMemory);
    for (const batch of this.oracle.batches) {
      if (hasEnded(batch)) this.#settled.add(batch.asked.id);
    }
  }

  /** An ended batch is checked again from now on. */
  protected watchAgain(id: string): void {
    this.#settled.delete(id);
  }

  /** Unfinished batches, and the newest of the ended ones. */
  #listWatched(): Batch[] {
    return this.oracle.batches.filter(({ asked }) => !this.#settled.has(asked.id));
  }

  async #look(store: Store): Promise<BatchView[]> {
    const views: BatchView[] = [];
    for (const { asked } of this.#listWatched()) {
      const { id } = asked;
      const snapshot = await store.getBatch(id);
      const recount = await store.recount(id);
      assert(snapshot !== null && recount !== null, `${store.name} knows ${id}`);
      const pages = asked.settings.steps.map((_, step) => ({ ...EVERYTHING, step }));
      const results = pages.map((page) => store.readResults(id, page));
      const letters = pages.map((page) => store.readDeadLetters(id, page));
      views.push({
        snapshot: hush(snapshot),
        recount,
        results: (await Promise.all(results)).flat(),
        letters: hush((await Promise.all(letters)).flat()),
        records: await this.#chains.read(store, id),
      });
    }
    return views;
  }

  /** Lanes, what is to be sliced, and why each batch and its chunks wait. */
  async #lookAround(store: Store): Promise<unknown[]> {
    const watched = this.#listWatched().map(({ asked }) => asked.id);
    return [
      await store.listLanes(),
      (await store.listUnsliced("p", 9)).map(({ id }) => id),
      await Promise.all(watched.map((id) => store.readWaiting(id, 9))),
    ];
  }

  #predict(): BatchView[] {
    return this.#listWatched().map((batch) => {
      const snapshot = this.oracle.describe(batch);
      const { counts } = snapshot;
      return {
        snapshot,
        recount: { counters: counts, recounted: counts },
        results: batch.steps.flatMap(({ results }) =>
          [...results.values()].toSorted((a, b) => a.item - b.item),
        ),
        letters: batch.steps.flatMap(lettersOf),
        records: batch.records,
      };
    });
  }
}

/** Pages of a step's results do not overlap and are complete. */
async function checkPages(store: Store, id: string, step: number): Promise<void> {
  const whole = await store.readResults(id, { ...EVERYTHING, step });
  const paged = [];
  for (let afterItem = -1; ; ) {
    const page = await store.readResults(id, { ...EVERYTHING, step, afterItem, limit: 2 });
    paged.push(...page);
    if (page.length === 0) break;
    afterItem = page.at(-1)!.item;
  }
  assert.deepEqual(paged, whole, "pages do not overlap and leave nothing out");
}
