/**
 * Plays a seed on a real PostgreSQL server: rounds of calls that several stores make at once, with
 * their statements interleaved by the seed (schedule.ts), judged after each round (judge.ts).
 */
import { readCanonicalState, readOutline } from "../../test/support/canonical-state.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import type { State } from "../../src/adapters/memory/state.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { LeasedChunk, WorkResult } from "../../src/ports/store/worker-store.ts";
import { nameLease } from "../../src/ports/store/worker-store.ts";
import type { Ground } from "./ground.ts";
import { Judge, type Played, type Verdict } from "./judge.ts";
import { withoutOrder } from "./without-order.ts";
import { Model } from "./model.ts";
import { type Line, pick, Schedule } from "./schedule.ts";
import type { Planned } from "./planned.ts";
import { chooseTheme } from "./themes.ts";
import { Traffic } from "./traffic.ts";

const ROUNDS = 20;
/**
 * What the store holds is read after this number of rounds, and after those that several orders
 * explain. Reading it takes as long as the round.
 */
const LOOKS_EVERY = 4;
/** Everything is compared then. */
const COMPARES_EVERY = 10;
const ADVANCES_MS = [0, 0, 1, 5, 30, 60, 250] as const;
const CALLS = [2, 2, 2, 3, 3, 4] as const;

export interface PlayedSeed {
  readonly seed: number;
  readonly problems: readonly string[];
  /** What happened until then. */
  readonly story: readonly string[];
  readonly counts: Counts;
}

export interface Counts {
  readonly calls: number;
  readonly statements: number;
  /** Statements that waited for a lock of another store. */
  readonly waits: number;
  /** Transactions that began again. */
  readonly retries: number;
  /** Rounds of several calls. */
  readonly rounds: number;
}

export const NO_COUNTS: Counts = { calls: 0, statements: 0, waits: 0, retries: 0, rounds: 0 };

export function addCounts(one: Counts, other: Counts): Counts {
  return {
    calls: one.calls + other.calls,
    statements: one.statements + other.statements,
    waits: one.waits + other.waits,
    retries: one.retries + other.retries,
    rounds: one.rounds + other.rounds,
  };
}

export async function playInterleaved(seed: number, ground: Ground): Promise<PlayedSeed> {
  await ground.empty();
  return new Seed(seed, ground).play();
}

class Seed {
  readonly #seed: number;
  readonly #ground: Ground;
  readonly #random: SeededRandom;
  readonly #model: Model;
  readonly #judge: Judge;
  readonly #schedule: Schedule;
  readonly #traffic: Traffic;
  #states: readonly State[];
  readonly #leases = new Set<string>();
  readonly #story: string[] = [];
  readonly #problems: string[] = [];
  #counts: Counts = NO_COUNTS;

  constructor(seed: number, ground: Ground) {
    this.#seed = seed;
    this.#ground = ground;
    this.#random = new SeededRandom(seed);
    this.#model = new Model(ground.time);
    this.#judge = new Judge(this.#model);
    this.#schedule = new Schedule(ground.monitor, this.#random);
    this.#traffic = new Traffic(this.#random, ground.time, this.#model.state);
    this.#states = [this.#model.save()];
  }

  async play(): Promise<PlayedSeed> {
    const parts = [
      () => this.#open(),
      () => this.#rounds(),
      () => this.#compareAll(),
      () => this.#compareLeases(),
    ];
    for (const part of parts) {
      await part();
      if (this.#problems.length > 0) break;
    }
    return {
      seed: this.#seed,
      problems: this.#problems,
      story: this.#story,
      counts: this.#counts,
    };
  }

  async #open(): Promise<void> {
    for (const planned of this.#traffic.open()) {
      if (!(await this.#round([planned]))) return;
    }
  }

  async #rounds(): Promise<void> {
    const theme = chooseTheme(this.#seed);
    for (let round = 1; round <= ROUNDS; round++) {
      this.#advance(pick(this.#random, ADVANCES_MS));
      const calls = pick(this.#random, CALLS);
      if (!(await this.#round(this.#traffic.draw(theme, calls)))) return;
      if (round % LOOKS_EVERY === 0 || this.#states.length > 1) await this.#look();
      if (round % COMPARES_EVERY === 0) await this.#compareAll();
      if (this.#problems.length > 0) return;
    }
  }

  #advance(ms: number): void {
    const { time } = this.#ground;
    time.set(time.wallMs() + ms, time.monotonicMs() + ms);
    if (ms > 0) this.#story.push(`${ms} ms pass`);
  }

  /** False when something is wrong. */
  async #round(planned: readonly Planned[]): Promise<boolean> {
    if (planned.length === 0) return true;
    const { lines } = this.#ground;
    const acts = planned.map(({ verb, args }, nth) => ({
      line: lines[nth] as Line,
      run: (store: Store) =>
        (store[verb] as (...given: readonly unknown[]) => Promise<unknown>)(...args),
    }));
    for (const [nth, { verb, args }] of planned.entries()) {
      this.#story.push(`${(lines[nth] as Line).name} = ${verb}(${describe(args)})`);
    }
    const { acted, story, problems, ...met } = await this.#schedule.play(acts);
    const rounds = planned.length > 1 ? 1 : 0;
    this.#counts = addCounts(this.#counts, { ...met, calls: planned.length, rounds });
    if (planned.length > 1) this.#story.push(...story.map((line) => `  ${line}`));
    const played = acted.map((one, nth): Played => {
      const { verb, args } = planned[nth] as Planned;
      const line = (lines[nth] as Line).name;
      this.#story.push(`${line} -> ${describe([one.outcome])}`);
      return { ...one, call: { verb, args }, line };
    });
    this.#problems.push(...problems);
    this.#noteLeases(played);
    this.#accept(await this.#judge.explain(this.#states, played));
    if (planned.length > 1) this.#problems.push(...(await this.#ground.findBroken()));
    if (this.#problems.length > 0) return false;
    for (const [nth, { outcome }] of played.entries()) {
      if ("answer" in outcome) (planned[nth] as Planned).learn(outcome.answer);
    }
    return true;
  }

  /** No lease is given twice. */
  #noteLeases(played: readonly Played[]): void {
    for (const { call, outcome } of played) {
      if (call.verb !== "work" || !("answer" in outcome)) continue;
      const { leased } = outcome.answer as WorkResult;
      for (const lease of leased.map((one: LeasedChunk) => nameLease(one))) {
        if (this.#leases.has(lease)) this.#problems.push(`leased twice: ${lease}`);
        this.#leases.add(lease);
      }
    }
  }

  async #look(): Promise<void> {
    const ids = [...this.#traffic.ids];
    await this.#compare(async (store) => withoutOrder(await readOutline(store, ids)));
  }

  async #compareAll(): Promise<void> {
    const gone = [...this.#traffic.ids];
    await this.#compare(async (store) =>
      withoutOrder(await readCanonicalState(store, { readers: [], gone })),
    );
  }

  async #compare(read: (store: Store) => Promise<unknown>): Promise<void> {
    const look = { actual: await read(this.#ground.observer), read };
    this.#accept(await this.#judge.compare(this.#states, look));
  }

  async #compareLeases(): Promise<void> {
    this.#problems.push(...(await this.#ground.findBrokenLeases()));
  }

  #accept(verdict: Verdict): void {
    if ("why" in verdict) {
      this.#problems.push(
        ["no order of the calls explains what happened", ...verdict.why].join("\n    "),
      );
      return;
    }
    this.#states = verdict.states;
    this.#model.restore(verdict.states[0] as State);
  }
}

function describe(values: readonly unknown[]): string {
  return values.map((value) => JSON.stringify(value)).join(", ");
}
