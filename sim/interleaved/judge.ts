/**
 * Judges what several calls at once did: their answers, and what the store holds afterwards, must be
 * those of the reference model after the same calls in some order, one after the other. A call that
 * was answered before another one began comes before it.
 *
 * Where a store may answer otherwise than the model, a rule says how (`listWays`): nothing is left out
 * of the comparison because of it.
 */
import type { State } from "../../src/adapters/memory/state.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { StoreVerb } from "../../src/ports/store/store-verbs.ts";
import type {
  LeasedChunk,
  LeaseRequest,
  Report,
  SweepResult,
  WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { describeDifference, findFirstDifference } from "../../test/support/canonical-state.ts";
import { describeState, type Model } from "./model.ts";
import { type Acted, nameError, type Outcome } from "./schedule.ts";

export interface Call {
  readonly verb: StoreVerb;
  readonly args: readonly unknown[];
}

export interface Played extends Acted {
  readonly call: Call;
  readonly line: string;
}

/** A transaction of a call; `before` are the outcomes of the call's earlier ones. */
type Stage = (before: readonly Outcome[]) => Promise<Outcome>;
/** How the model may come to the answer of a call, which is that of the last stage. */
type Way = readonly [Stage, ...Stage[]];

/** A call that has not ended yet, in an order that is being tried. */
interface Pending {
  readonly played: Played;
  readonly ways: readonly Way[];
  readonly before: readonly Outcome[];
}

/** States of the model that explain everything so far; or why there is none. */
export type Verdict = { readonly states: readonly State[] } | { readonly why: readonly string[] };

const WHYS_MAX = 6;
/** The answer of a lease that met only batches and shares that others had locked. */
const CONTENDED_MS = 1;

/** What the store holds, and how the model's is read; both without what depends on the order of commits. */
export interface Look {
  readonly actual: unknown;
  readonly read: (store: Store) => Promise<unknown>;
}

export class Judge {
  readonly #model: Model;
  #whys: string[] = [];

  constructor(model: Model) {
    this.#model = model;
  }

  async explain(from: readonly State[], played: readonly Played[]): Promise<Verdict> {
    const found = new Map<string, State>();
    // Orders in which others come between the transactions of one call are many: only if needed.
    for (const isSplit of [false, true]) {
      this.#whys = [];
      const isAlone = played.length === 1;
      const left = played.map((one): Pending => {
        const ways = this.#listWays(one, isAlone).filter((way) => isSplit || way.length === 1);
        return { played: one, ways, before: [] };
      });
      for (const state of from) await this.#search(state, left, [], found);
      if (found.size > 0 || isAlone) break;
    }
    const states = [...found.values()];
    return states.length > 0 ? { states } : { why: this.#whys };
  }

  async #search(
    state: State,
    left: readonly Pending[],
    order: readonly string[],
    found: Map<string, State>,
  ): Promise<void> {
    if (left.length === 0) return void found.set(describeState(state), state);
    for (const [nth, next] of left.entries()) {
      const { played, ways, before } = next;
      // Another one was done before this one began.
      if (left.some((other) => other.played.doneAt < played.beganAt)) continue;
      for (const [stage, ...later] of ways) {
        const expected = await this.#model.try(state, () => stage(before));
        const known = [...order, played.line];
        const [following, ...last] = later;
        if (following !== undefined) {
          const ways2: Way[] = [[following, ...last]];
          const rest = { played, ways: ways2, before: [...before, expected] };
          await this.#search(this.#model.save(), left.with(nth, rest), known, found);
          continue;
        }
        const difference = findFirstDifference(expected, played.outcome);
        if (difference === null) {
          await this.#search(this.#model.save(), left.toSpliced(nth, 1), known, found);
        } else this.#note(known, played.call.verb, difference);
      }
    }
  }

  /** Those of the states in which the model holds what the store holds. */
  async compare(from: readonly State[], { actual, read }: Look): Promise<Verdict> {
    this.#whys = [];
    const states: State[] = [];
    for (const state of from) {
      this.#model.restore(state);
      const difference = findFirstDifference(await read(this.#model.store), actual);
      if (difference === null) states.push(state);
      else this.#note([], "state", difference);
    }
    return states.length > 0 ? { states } : { why: this.#whys };
  }

  #note(
    order: readonly string[],
    what: string,
    difference: Parameters<typeof describeDifference>[0],
  ): void {
    if (this.#whys.length >= WHYS_MAX) return;
    const said = describeDifference(difference, ["the model", "PostgreSQL"]);
    const after = order.length === 0 ? "" : `in the order ${order.join(", ")}: `;
    this.#whys.push(`${after}${what}: ${said}`);
  }

  /** In most cases there is one: the same call. */
  #listWays({ call, outcome }: Played, isAlone: boolean): Way[] {
    const { store } = this.#model;
    const same: Way = [() => attempt(store, call)];
    if (!("answer" in outcome)) return [same];
    if (call.verb === "work") {
      const [reports, lease] = call.args as Parameters<Store["work"]>;
      if (lease === null) return [same];
      return [same, ...this.#listLeases(reports, lease, outcome.answer as WorkResult, isAlone)];
    }
    if (isAlone) return [same];
    // Retention passes over a batch that another transaction has locked.
    if (call.verb === "prune") return [same, [() => this.#pruneNothing(call)]];
    // A transaction for each batch.
    if (call.verb === "sweep") return [same, [same[0], (before) => this.#sweepAgain(call, before)]];
    return [same];
  }

  /**
   * A lease passes over batches that others have locked, and then finds less: nothing of the batch
   * that it asked for, and it says to ask again at once; or chunks of other batches than the model
   * chooses. What it takes of a batch must be what the model leases from that batch. If all were
   * locked, it ends its transaction, which frees what the worker does not need, and begins another
   * one. Without a batch it also finds nothing if the batches that it chose from have ended or paused
   * since it read them.
   */
  #listLeases(
    reports: readonly Report[],
    lease: LeaseRequest,
    answer: WorkResult,
    isAlone: boolean,
  ): Way[] {
    const { store } = this.#model;
    const { leased, nextDueInMs } = answer;
    const nothing: Stage = async () => {
      const found = await store.work(reports, { ...lease, itemsMax: 0, chunksMax: 0 });
      return { answer: { ...found, nextDueInMs: CONTENDED_MS } };
    };
    const passed: Stage = async () => ({
      answer: await store.work(reports, { ...lease, itemsMax: 0, chunksMax: 0 }),
    });
    const told: Stage = () => this.#leaseAsTold(reports, lease, leased);
    const same: Stage = async () => ({ answer: await store.work(reports, lease) });
    const ways: Way[] = [];
    if (lease.batch === null && leased.length > 0) ways.push([told]);
    if (isAlone) return ways;
    if (leased.length === 0 && nextDueInMs === CONTENDED_MS) ways.push([nothing]);
    if (leased.length === 0 && lease.batch === null) ways.push([passed]);
    if (reports.length > 0) return ways;
    return [...ways, ...[[same] as Way, ...ways].map(([last]): Way => [nothing, last])];
  }

  async #leaseAsTold(
    reports: readonly Report[],
    lease: LeaseRequest,
    leased: readonly LeasedChunk[],
  ): Promise<Outcome> {
    const { store } = this.#model;
    const first = await store.work(reports, null);
    let answer = first;
    const chunks: LeasedChunk[] = [];
    for (const [batch, taken] of Map.groupBy(leased, (chunk) => chunk.batch)) {
      const itemsMax = taken.reduce((sum, { start, end }) => sum + end - start, 0);
      answer = await store.work([], { ...lease, batch, itemsMax, chunksMax: taken.length });
      chunks.push(...answer.leased);
    }
    return { answer: { ...answer, reports: first.reports, ended: first.ended, leased: chunks } };
  }

  async #sweepAgain({ args }: Call, [before]: readonly Outcome[]): Promise<Outcome> {
    const [policy] = args as Parameters<Store["sweep"]>;
    if (before === undefined || !("answer" in before)) throw new Error("a sweep does not fail");
    const first = before.answer as SweepResult;
    const { lostLeases, tended, ended } = await this.#model.store.sweep(policy);
    return {
      answer: {
        lostLeases: first.lostLeases + lostLeases,
        tended: first.tended + tended,
        ended: [...first.ended, ...ended],
      },
    };
  }

  async #pruneNothing(call: Call): Promise<Outcome> {
    const [policy] = call.args as Parameters<Store["prune"]>;
    const { owed } = await this.#model.store.prune({ ...policy, dryRun: true });
    return { answer: { scratched: 0, removed: 0, messages: 0, owed, more: false } };
  }
}

async function attempt(store: Store, { verb, args }: Call): Promise<Outcome> {
  try {
    const run = store[verb] as (...given: readonly unknown[]) => Promise<unknown>;
    return { answer: await run(...args) };
  } catch (error) {
    return { threw: nameError(error) };
  }
}
