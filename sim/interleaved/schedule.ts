/**
 * Calls of several stores at once, one statement at a time. A seed decides which store sends its next
 * statement. The statement is then answered, or the server shows that it waits for a lock of one of
 * the others; only then the next one is chosen. So a seed decides the order of locks, of waits and
 * of commits.
 */
import pg from "pg";
import type { Clock } from "../../src/ports/clock.ts";
import type { Random } from "../../src/ports/random.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { SetClock } from "../shadow-store.ts";
import type { Gate } from "./gate.ts";

/** Without an answer by then, the server is asked whether the statement waits for a lock. */
const LOOK_EVERY_MS = 1;
/** In real time. Nothing that the stores do takes so long. */
const STEP_LIMIT_MS = 20_000;
/** Statements and pauses of one round: more are a loop. */
const STEPS_MAX = 2_000;
const TEXT_CHARS_MAX = 110;

/**
 * A store's clock: its time stands still, and a pause of the store lasts until the schedule ends it.
 */
export class PausingClock implements Clock {
  readonly #time: SetClock;
  readonly #pauses = new Set<() => void>();
  onChange: () => void = () => undefined;

  constructor(time: SetClock) {
    this.#time = time;
  }

  wallMs(): number {
    return this.#time.wallMs();
  }

  monotonicMs(): number {
    return this.#time.monotonicMs();
  }

  after(_delayMs: number, callback: () => void): () => void {
    this.#pauses.add(callback);
    this.onChange();
    return () => void this.#pauses.delete(callback);
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  get pauses(): number {
    return this.#pauses.size;
  }

  /** Ends the oldest pause. */
  wake(): void {
    const [callback] = this.#pauses;
    if (callback === undefined) return;
    this.#pauses.delete(callback);
    callback();
  }

  /** Timers that were set until now are not pauses, and never fire. */
  forget(): void {
    this.#pauses.clear();
  }
}

/** A store with its own connection. */
export interface Line {
  /** A letter, for the story. */
  readonly name: string;
  readonly store: Store;
  readonly gate: Gate;
  readonly clock: PausingClock;
}

export type Outcome = { readonly answer: unknown } | { readonly threw: string };

export interface Act {
  readonly line: Line;
  readonly run: (store: Store) => Promise<unknown>;
}

export interface Acted {
  readonly outcome: Outcome;
  /** Numbers of steps: one that was done before another one began came before it. */
  readonly beganAt: number;
  readonly doneAt: number;
}

export interface Round {
  readonly acted: readonly Acted[];
  /** What the schedule did, step by step. */
  readonly story: readonly string[];
  readonly problems: readonly string[];
  readonly statements: number;
  /** Statements that waited for a lock of another line. */
  readonly waits: number;
  /** Transactions that began again. */
  readonly retries: number;
}

class Player {
  readonly line: Line;
  outcome: Outcome | null = null;
  beganAt = Number.POSITIVE_INFINITY;
  doneAt = Number.POSITIVE_INFINITY;
  /** The server showed that its statement waits for a lock of another line. */
  isBlocked = false;
  /** Its statement has waited for one. */
  hasWaited = false;

  constructor(line: Line) {
    this.line = line;
  }

  get isUnderWay(): boolean {
    return this.line.gate.unanswered > 0;
  }

  get canGoOn(): boolean {
    if (this.isUnderWay) return false;
    const { gate, clock } = this.line;
    return gate.waiting > 0 || (this.outcome === null && clock.pauses > 0);
  }

  /** It will send something, or be done, in a moment. */
  get isThinking(): boolean {
    return this.isUnderWay ? !this.isBlocked : this.outcome === null && !this.canGoOn;
  }
}

export class Schedule {
  readonly #monitor: pg.Client;
  readonly #random: Random;

  /** `monitor`: a connection of its own, to see who waits for whom. */
  constructor(monitor: pg.Client, random: Random) {
    this.#monitor = monitor;
    this.#random = random;
  }

  async play(acts: readonly Act[]): Promise<Round> {
    return new Playing(this.#monitor, this.#random, acts).play();
  }
}

/**
 * How many statements of a line pass at once, on average: from fine to coarse. `preempt`: one line is
 * stopped after some statements, and goes on when the others are done. Most races are of this kind.
 */
const PACES = [1, 1, 2, 4, "preempt", "preempt", "preempt"] as const;
/** About as many as a call has. */
const STOPPED_AFTER_MAX = 25;

class Playing {
  readonly #monitor: pg.Client;
  readonly #random: Random;
  readonly #acts: readonly Act[];
  readonly #players: readonly Player[];
  readonly #pace: number | "preempt";
  /** The first of these that can go on does, if one is preempted. */
  readonly #order: Player[];
  readonly #story: string[] = [];
  readonly #problems: string[] = [];
  #step = 0;
  #isPreempted = false;
  readonly #counts = { statements: 0, waits: 0, retries: 0 };
  #changed: () => void = () => undefined;

  constructor(monitor: pg.Client, random: Random, acts: readonly Act[]) {
    this.#monitor = monitor;
    this.#random = random;
    this.#acts = acts;
    this.#players = acts.map(({ line }) => new Player(line));
    this.#pace = pick(random, PACES);
    this.#order = [...this.#players];
    // In an order that the seed draws.
    for (let at = this.#order.length; at > 1; at--) {
      this.#order.push(...this.#order.splice(Math.floor(random.next() * at), 1));
    }
  }

  async play(): Promise<Round> {
    const calls = this.#players.map((player, nth) => this.#begin(player, this.#acts[nth] as Act));
    try {
      for (; this.#step < STEPS_MAX; this.#step++) {
        await this.#settle();
        const ready = this.#players.filter((player) => player.canGoOn);
        if (ready.length > 0) this.#act(this.#choose(ready));
        else if (this.#players.every(({ outcome }) => outcome !== null)) break;
        else await this.#waitForDeadlock();
      }
      if (this.#step === STEPS_MAX) this.#problems.push("no end: the calls repeat for ever");
    } finally {
      for (const { line } of this.#players) line.gate.open();
    }
    for (const { line } of this.#players) {
      for (const text of line.gate.deadlocks.splice(0)) {
        this.#problems.push(`deadlock: the server gave up ${line.name}: ${shorten(text)}`);
      }
    }
    if (this.#step < STEPS_MAX) await Promise.all(calls);
    return {
      acted: this.#players.map(({ outcome, beganAt, doneAt }) => ({
        outcome: outcome ?? { threw: "no answer" },
        beganAt,
        doneAt,
      })),
      story: this.#story,
      problems: this.#problems,
      ...this.#counts,
    };
  }

  #begin(player: Player, { line, run }: Act): Promise<void> {
    const { gate, clock } = line;
    gate.close();
    gate.onChange = () => this.#changed();
    clock.onChange = () => this.#changed();
    gate.onPassed = (text) => {
      this.#counts.statements++;
      this.#story.push(`${line.name}: ${shorten(text)}`);
    };
    gate.onFreed = () => {
      for (const other of this.#players) other.isBlocked = false;
    };
    const conclude = (outcome: Outcome): void => {
      player.outcome = outcome;
      player.doneAt = this.#step;
      this.#changed();
    };
    return run(line.store).then(
      (answer) => conclude({ answer }),
      (error: unknown) => conclude({ threw: nameError(error) }),
    );
  }

  #choose(ready: readonly Player[]): Player {
    if (this.#pace !== "preempt") return pick(this.#random, ready);
    return this.#order.find((player) => ready.includes(player)) as Player;
  }

  /** It goes on when the others cannot. */
  #putLast(player: Player): void {
    this.#order.push(...this.#order.splice(this.#order.indexOf(player), 1));
  }

  #act(player: Player): void {
    const { gate, clock, name } = player.line;
    if (gate.waiting === 0) {
      this.#counts.retries++;
      this.#story.push(`${name} tries again`);
      gate.stopPassing();
      clock.wake();
      // It may try again for as long as another one does not go on.
      this.#putLast(player);
      return;
    }
    player.isBlocked = false;
    player.hasWaited = false;
    player.beganAt = Math.min(player.beganAt, this.#step);
    const isLast = this.#players.every((one) => one === player || one.outcome !== null);
    gate.pass(isLast ? Number.POSITIVE_INFINITY : this.#drawLength(player));
  }

  #drawLength(player: Player): number {
    if (this.#pace !== "preempt") {
      return 1 + Math.floor(-Math.log(1 - this.#random.next()) * (this.#pace - 1));
    }
    if (this.#isPreempted) return Number.POSITIVE_INFINITY;
    this.#isPreempted = true;
    this.#putLast(player);
    return 1 + Math.floor(this.#random.next() * STOPPED_AFTER_MAX);
  }

  /** Every line has something to send, waits for a lock, or is done. */
  async #settle(): Promise<void> {
    const giveUpAt = performance.now() + STEP_LIMIT_MS;
    while (this.#players.some(({ isThinking }) => isThinking)) {
      const isSoon = await this.#wait(LOOK_EVERY_MS);
      if (!isSoon) await this.#findBlocked();
      if (performance.now() > giveUpAt) throw new Error(`a call hangs:\n${this.#story.join("\n")}`);
    }
  }

  /** True when something changed, false when the time is over. */
  #wait(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#end(resolve, false), ms);
      this.#changed = () => {
        clearTimeout(timer);
        // What the client makes of an answer comes a moment after it.
        setImmediate(() => this.#end(resolve, true));
      };
    });
  }

  #end(resolve: (changed: boolean) => void, changed: boolean): void {
    this.#changed = () => undefined;
    resolve(changed);
  }

  async #findBlocked(): Promise<void> {
    const running = this.#players.filter(({ isUnderWay, isBlocked }) => isUnderWay && !isBlocked);
    if (running.length === 0) return;
    const pids = this.#players.flatMap(({ line }) => line.gate.pids);
    const { rows } = await this.#monitor.query<{ pid: number }>({
      name: "blocked",
      text: "SELECT pid FROM unnest($1::int[]) AS pid WHERE pg_blocking_pids(pid) && $1::int[]",
      values: [pids],
    });
    for (const player of running) {
      if (!player.isUnderWay || !rows.some(({ pid }) => player.line.gate.pids.includes(pid))) {
        continue;
      }
      player.isBlocked = true;
      player.line.gate.stopPassing();
      if (player.hasWaited) continue;
      player.hasWaited = true;
      this.#counts.waits++;
      this.#story.push(`${player.line.name} waits for a lock`);
    }
  }

  /** Each waits for another one: the server ends one of the transactions. */
  async #waitForDeadlock(): Promise<void> {
    const giveUpAt = performance.now() + STEP_LIMIT_MS;
    const stuck = this.#players.filter(({ outcome }) => outcome === null);
    while (stuck.every(({ isUnderWay, isBlocked }) => isUnderWay && isBlocked)) {
      await this.#wait(LOOK_EVERY_MS);
      if (performance.now() > giveUpAt) throw new Error(`all wait:\n${this.#story.join("\n")}`);
    }
  }
}

export function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random.next() * from.length)] as T;
}

/** Messages name the store; callers rely on the code. */
export function nameError(error: unknown): string {
  const { code, name } = error as { readonly code?: string; readonly name?: string };
  return code ?? name ?? String(error);
}

function shorten(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX)}…`;
}
