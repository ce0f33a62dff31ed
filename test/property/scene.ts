/**
 * Both stores side by side on one clock, with the oracle that predicts their answers and the witness
 * that holds them to the promises. Every act is done to both, compared, and followed by a look at
 * everything there is.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { createMemoryStore } from "../../src/adapters/memory/store.ts";
import type { Host } from "../../src/adapters/sqlite/host.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { InlineResult, PlanPart, PlanResult, Submission } from "../../src/ports/conducting.ts";
import type { DeadLetter } from "../../src/ports/reading.ts";
import type { Store } from "../../src/ports/store.ts";
import type { LeaseRef, LeaseRequest, Report, WorkResult } from "../../src/ports/working.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { Oracle } from "./oracle.ts";
import { type Batch, describe, hasEnded, itemsOf } from "./oracle-batch.ts";
import { type BatchView, Witness } from "./witness.ts";

export interface Pair {
  readonly memory: Store;
  readonly sqlite: Store;
}

/** Nobody is ever gone: what runs out here does so by the clock. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };
const EVERYTHING = { afterItem: -1, limit: 1_000 };

export async function openPair(clock: ManualClock): Promise<Pair> {
  return {
    memory: createMemoryStore({ clock, sha256: (text) => hash("sha256", text) }),
    sqlite: await openSqliteStore(":memory:", { clock, random: new SeededRandom(), host: HOST }),
  };
}

export async function closePair({ memory, sqlite }: Pair): Promise<void> {
  await memory.close();
  await sqlite.close();
}

export class Scene {
  readonly clock: ManualClock;
  readonly oracle: Oracle;
  readonly witness = new Witness();
  /** Which batches were looked at after they ended: they are looked at again only now and then. */
  readonly #settled = new Set<string>();

  constructor(clock: ManualClock) {
    this.clock = clock;
    this.oracle = new Oracle(clock);
  }

  /** The batch with a number, counted round. */
  pick(which: number): Batch {
    const { batches } = this.oracle;
    const batch = batches[which % batches.length];
    assert(batch !== undefined, "there is a batch to pick");
    return batch;
  }

  async submit(pair: Pair, submission: Submission): Promise<void> {
    await this.#act(pair, (store) => store.submit(submission), this.oracle.submit(submission));
  }

  async startSlicing(pair: Pair, id: string, afresh: boolean): Promise<void> {
    if (afresh && this.oracle.find(id).state === "slicing") this.witness.seeAfresh(id);
    const expected = this.oracle.startSlicing(id, afresh);
    await this.#act(pair, (store) => store.startSlicing(id, afresh), expected);
  }

  async plan(pair: Pair, part: PlanPart): Promise<PlanResult> {
    const expected = this.oracle.plan(part);
    this.witness.seePlan(part, expected);
    return this.#act(pair, (store) => store.plan(part), expected);
  }

  /** As the newest slicer, or as one that was fenced out. */
  async finishSlicing(pair: Pair, id: string, chunks: number, late = 0): Promise<void> {
    const fence = this.oracle.find(id).sliceFence - late;
    const expected = this.oracle.finishSlicing(id, chunks, fence);
    await this.#act(pair, (store) => store.finishSlicing(id, chunks, fence), expected);
  }

  async planInline(pair: Pair, part: PlanPart, request: LeaseRequest): Promise<InlineResult> {
    const now = this.clock.monotonicMs();
    const expected = this.oracle.planInline(part, request);
    const call = (store: Store): Promise<InlineResult> => store.planInline(part, request);
    const answer = await this.#compare(pair, call, expected);
    if (answer.kind === "leased") {
      this.witness.seePlan(part, { kind: "planned", chunks: 1 });
      this.witness.seeLease(answer.chunk, now, request.leaseMs);
    }
    await this.#lookAtBoth(pair);
    return answer;
  }

  async seal(pair: Pair, id: string): Promise<void> {
    await this.#act(pair, (store) => store.seal(id), this.oracle.seal(id));
  }

  async fail(pair: Pair, id: string): Promise<void> {
    const reason = { code: "BUDGET", message: "too many failures" };
    await this.#act(pair, (store) => store.fail(id, reason), this.oracle.fail(id, reason));
  }

  async work(
    pair: Pair,
    reports: readonly Report[],
    request: LeaseRequest | null,
  ): Promise<WorkResult> {
    const now = this.clock.monotonicMs();
    const stale = reports.length > 0 && request === null;
    const before = stale ? await this.#look(pair.sqlite) : null;
    const expected = this.oracle.work(reports, request);
    const answer = await this.#compare(pair, (store) => store.work(reports, request), expected);
    for (const [index, report] of reports.entries()) {
      this.witness.seeReport(report, answer.reports[index]!);
    }
    for (const lease of answer.leased) this.witness.seeLease(lease, now, request?.leaseMs ?? 0);
    await this.#lookAtBoth(pair);
    if (before !== null && answer.reports.every((one) => one === "lost")) {
      assert.deepEqual(await this.#look(pair.sqlite), before, "lost reports change nothing");
    }
    return answer;
  }

  async renew(pair: Pair, leases: readonly LeaseRef[], leaseMs: number): Promise<void> {
    const expected = this.oracle.renew(leases, leaseMs);
    const lost = await this.#act(pair, (store) => store.renew(leases, leaseMs), expected);
    this.witness.seeRenewal(leases, lost, this.clock.monotonicMs() + leaseMs);
  }

  async sweep(pair: Pair): Promise<void> {
    const sorted = async (store: Store): Promise<object> => {
      const { lostLeases, ended } = await store.sweep();
      // The order in which one sweep ends several batches is nobody's promise.
      return { lostLeases, ended: ended.toSorted() };
    };
    const { lostLeases, ended } = this.oracle.sweep();
    await this.#compare(pair, sorted, { lostLeases, ended: ended.toSorted() });
    this.witness.seeSweep(this.clock.monotonicMs(), lostLeases);
    await this.#lookAtBoth(pair);
  }

  async claim(pair: Pair, duty: string, worker: number, forMs: number): Promise<void> {
    const expected = this.oracle.claim(duty, worker, forMs);
    await this.#act(pair, (store) => store.claim(duty, worker, forMs), expected);
  }

  async unclaim(pair: Pair, duty: string, worker: number): Promise<void> {
    this.oracle.unclaim(duty, worker);
    await this.#act(pair, (store) => store.unclaim(duty, worker), undefined);
  }

  /** Lists of several batches, and pages of lists: dear to look at, so looked at once in a run. */
  async checkLists({ memory, sqlite }: Pair): Promise<void> {
    const newestFirst = this.oracle.batches.map(describe).toReversed();
    for (const store of [memory, sqlite]) {
      assert.deepEqual(await store.listBatches({ limit: 3 }), newestFirst.slice(0, 3));
      const ended = newestFirst.filter(({ endedAt }) => endedAt !== null);
      const states = ["succeeded", "completed_with_errors", "failed", "expired"] as const;
      assert.deepEqual(await store.listBatches({ limit: 99, states }), ended);
      for (const { id } of newestFirst) {
        const whole = await store.readResults(id, EVERYTHING);
        const paged = [];
        for (let afterItem = -1; ; ) {
          const page = await store.readResults(id, { afterItem, limit: 2 });
          paged.push(...page);
          if (page.length === 0) break;
          afterItem = page.at(-1)!.item;
        }
        assert.deepEqual(paged, whole, "pages do not overlap and leave nothing out");
      }
    }
    this.#settled.clear();
    await this.#lookAtBoth({ memory, sqlite });
  }

  async #act<T>(pair: Pair, call: (store: Store) => Promise<T>, expected: T): Promise<T> {
    const answer = await this.#compare(pair, call, expected);
    await this.#lookAtBoth(pair);
    return answer;
  }

  async #compare<T>(pair: Pair, call: (store: Store) => Promise<T>, expected: T): Promise<T> {
    const fromMemory = await call(pair.memory);
    const fromSqlite = await call(pair.sqlite);
    assert.deepEqual(fromSqlite, fromMemory, "SQLite answers as the reference model does");
    assert.deepEqual(fromMemory, expected, "the reference model answers as the oracle does");
    return fromMemory;
  }

  async #lookAtBoth(pair: Pair): Promise<void> {
    const [inMemory, inSqlite] = [await this.#look(pair.memory), await this.#look(pair.sqlite)];
    assert.deepEqual(inSqlite, inMemory, "SQLite holds what the reference model holds");
    assert.deepEqual(inMemory, this.#predict(), "the reference model holds what the oracle holds");
    for (const view of inMemory) this.witness.checkBatch(view);
    for (const batch of this.oracle.batches) {
      if (hasEnded(batch)) this.#settled.add(batch.asked.id);
    }
  }

  /** Batches that still live, and the newest of those that do not. */
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
      views.push({
        snapshot,
        recount,
        results: await store.readResults(id, EVERYTHING),
        letters: (await store.readDeadLetters(id, EVERYTHING)).map(hushPoison),
        records: await readChain(store, id),
      });
    }
    return views;
  }

  #predict(): BatchView[] {
    return this.#listWatched().map((batch) => {
      const snapshot = describe(batch);
      const { counts } = snapshot;
      return {
        snapshot,
        recount: { counters: counts, recounted: counts },
        results: [...batch.results.values()].toSorted((a, b) => a.item - b.item),
        letters: itemsOf(batch).flatMap(({ letter }) => (letter === null ? [] : [letter])),
        records: batch.records,
      };
    });
  }
}

/** The wording of a conviction is core's own. */
function hushPoison(letter: DeadLetter): DeadLetter {
  return letter.code === "POISON" ? { ...letter, message: "" } : letter;
}

/** The records of a batch without their links, which are followed and checked here. */
async function readChain(store: Store, id: string): Promise<Batch["records"]> {
  let prev = "0".repeat(64);
  let seq = 0;
  let position = 0;
  const records = await store.readRecords(id, 0, 1_000);
  return records.map((record) => {
    const body = JSON.parse(record.body) as Batch["records"][number];
    const { type, at, data } = body;
    seq += 1;
    assert.equal(record.hash, hash("sha256", record.body), `${id}: a record matches its hash`);
    assert.deepEqual(
      body,
      { v: 1, seq, prev, batch: id, type, at, data },
      `${id}: the chain holds`,
    );
    assert(record.position > position, `${id}: positions rise`);
    assert.deepEqual([record.seq, record.type, record.batch], [seq, type, id]);
    ({ position } = record);
    prev = record.hash;
    return { type, at, data };
  });
}
