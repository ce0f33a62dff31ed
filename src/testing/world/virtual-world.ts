/** The world itself: starts and kills processes, moves time, and cleans up at its end. */
import { hash } from "node:crypto";
import { createMemoryStore, type MemoryStore } from "../../adapters/memory/store.ts";
import { isConserved } from "../../core/batch/counts.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { Engine } from "../../runtime/engine/engine.ts";
import { FaultDesk } from "../faults/fault-desk.ts";
import { describeFault, type Fault } from "../faults/faults.ts";
import { History } from "./history.ts";
import { describeLife, type Life } from "./life.ts";
import { never } from "./never.ts";
import { rehearse } from "./rehearsal.ts";
import { findScope, openScopes, runInScope } from "./scope.ts";
import { SeededRandom } from "./seeded-random.ts";
import { StoreTraffic } from "./store-traffic.ts";
import { SupervisedProcess } from "./supervised-process.ts";
import { UserCode } from "./user-code.ts";
import { MortalClock, VirtualTime } from "./virtual-clock.ts";
import type { SharedEngineOptions } from "../../runtime/engine/engine-options.ts";
import type { Process, Program, World } from "./world.ts";
import type { CheckedWorld } from "./world-options.ts";

/** How long a supervisor takes to restart a process. */
const RESTART_MS = 1_000;
/** Without this limit, a process that dies at every start would be restarted for ever. */
const LIVES_MAX = 1_000;
const CLOSE_MS_MAX = 3_600_000;
/** In a world no notification is lost: rare polling lets hours pass faster. */
const POLL_MS = 10_000;

const sha256 = (text: string): string => hash("sha256", text);

export class VirtualWorld implements World {
  readonly seed: number;
  readonly store: MemoryStore;
  readonly #options: CheckedWorld;
  readonly #time = new VirtualTime();
  readonly #clock = new MortalClock(this.#time);
  readonly #random: SeededRandom;
  readonly #history = new History();
  readonly #closeScopes = openScopes();
  readonly #desk: FaultDesk;
  readonly #traffic: StoreTraffic;
  readonly #processes = new Map<string, SupervisedProcess<unknown>>();
  #lives = 0;
  /** An error that fails the whole test at once. */
  #failure: { readonly error: unknown } | null = null;
  #isEnding = false;

  constructor(options: CheckedWorld) {
    const { seed, faults } = options;
    this.#options = options;
    this.seed = seed;
    this.#random = new SeededRandom(seed);
    const store = createMemoryStore({ clock: this.#clock, sha256 });
    this.store = store;
    this.#desk = new FaultDesk(faults, ({ verb, args }) =>
      rehearse({ store, clock: this.#clock, sha256 }, verb, args),
    );
    this.#traffic = new StoreTraffic({
      time: this.#time,
      store,
      random: new SeededRandom(seed + 1),
      desk: this.#desk,
      note: (life, what) => this.#note(life, what),
      onKill: (life, fault) => this.#kill(life, describeFault(fault)),
      onCommit: () => this.#checkConservation(),
      onError: (error) => this.#fail(error),
    });
  }

  get elapsedMs(): number {
    return this.#time.elapsedMs;
  }

  get commits(): readonly string[] {
    return this.#traffic.commits;
  }

  get history(): readonly string[] {
    return this.#history.lines;
  }

  /** The faults that have not happened. */
  get faultsLeft(): readonly Fault[] {
    return this.#desk.left;
  }

  now(): Date {
    return new Date(this.#time.wallMs);
  }

  random(): number {
    return this.#random.next();
  }

  sleep(delayMs: number, signal?: AbortSignal): Promise<void> {
    if (!(delayMs >= 0) || !Number.isFinite(delayMs)) {
      throw new SluiceError("BAD_OPTION", `world.sleep cannot wait for ${String(delayMs)} ms`, {
        field: "delayMs",
        hint: "Give world.sleep a number of milliseconds from 0 on.",
      });
    }
    const { life, hold } = findScope(this.#time) ?? { life: null, hold: null };
    if (life?.alive === false) return never();
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    const resume = hold?.suspend() ?? (() => undefined);
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        resume();
        signal?.removeEventListener("abort", abort);
      };
      const abort = (): void => {
        cancel();
        leave();
        reject(signal?.reason as Error);
      };
      const cancel = (life?.clock ?? this.#clock).after(delayMs, () => {
        leave();
        resolve();
      });
      signal?.addEventListener("abort", abort);
    });
  }

  async real<Result>(work: () => Result | PromiseLike<Result>): Promise<Result> {
    const hold = this.#time.hold(this.#options.hangAfterRealMs);
    try {
      return await work();
    } finally {
      hold.release();
    }
  }

  startEngine(options: SharedEngineOptions = {}): Promise<Engine> {
    const name = `engine-${this.#processes.size + 1}`;
    return this.#start(name, (engine: Engine) => engine, options, false).done;
  }

  start<Result>(
    name: string,
    program: Program<Result>,
    options: SharedEngineOptions = {},
  ): Process<Awaited<Result>> {
    return this.#start(name, program as Program<Awaited<Result>>, options, true);
  }

  #start<Result>(
    name: string,
    program: Program<Result>,
    options: SharedEngineOptions,
    isSupervised: boolean,
  ): SupervisedProcess<Result> {
    if (this.#isEnding) {
      throw new SluiceError("WRONG_STATE", `${name} cannot start: its world is over`, {
        kind: "world",
        hint: "Await everything within the function that was given to inVirtualTime.",
      });
    }
    if (this.#processes.has(name)) {
      throw new SluiceError("BAD_OPTION", `there is a process ${name} in this world already`, {
        field: "name",
        hint: "Give each process a name of its own.",
      });
    }
    const process = new SupervisedProcess(name, program, options, isSupervised, (life) => {
      // A handler that kills its own process is not awaited: it could not continue.
      const scope = findScope(this.#time);
      if (scope?.life === life) scope.hold?.suspend();
      this.#kill(life, "kill()");
    });
    this.#processes.set(name, process as SupervisedProcess<unknown>);
    this.#boot(process as SupervisedProcess<unknown>);
    return process;
  }

  #boot(process: SupervisedProcess<unknown>): void {
    const life: Life = {
      process: process.name,
      number: process.lives + 1,
      clock: new MortalClock(this.#time),
      random: new SeededRandom(this.seed * 1_000 + ++this.#lives),
      alive: true,
      engine: null,
    };
    process.begin(life);
    this.#note(life, "starts");
    void runInScope({ time: this.#time, life, hold: null }, () => this.#live(process, life));
  }

  async #live(process: SupervisedProcess<unknown>, life: Life): Promise<void> {
    const { hangAfterRealMs, engine: common } = this.#options;
    const code = new UserCode({
      life,
      time: this.#time,
      hangAfterRealMs,
      onHang: () => this.#note(life, `waits for user code longer than ${hangAfterRealMs} real ms`),
    });
    try {
      const engine = await Engine.start(this.#traffic.connect(life), {
        pollMs: POLL_MS,
        ...common,
        ...process.options,
        clock: life.clock,
        random: life.random,
      });
      life.engine = code.equip(engine);
    } catch (error) {
      return process.fail(error);
    }
    await process.run(life.engine, life);
  }

  /** From now on its calls and answers are dropped. */
  #kill(life: Life, by: string): void {
    const process = this.#processes.get(life.process);
    if (!life.alive || process === undefined) return;
    life.alive = false;
    life.clock.die();
    this.#traffic.disconnect(life);
    if (this.#isEnding) return;
    this.#note(life, "dies");
    if (!process.isSupervised) {
      const message = `${by} killed the engine ${life.process}, and nothing restarts it`;
      const hint =
        "Start it with world.start(name, program): the program is run again after each kill.";
      this.#fail(new SluiceError("WORLD_STUCK", message, { hint }));
    } else if (process.lives >= LIVES_MAX) {
      const message = `${process.name} has died ${LIVES_MAX} times`;
      this.#fail(new SluiceError("WORLD_STUCK", message, { hint: "Look at world.history." }));
    } else {
      this.#clock.after(RESTART_MS, () => {
        if (!this.#isEnding) this.#boot(process);
      });
    }
  }

  #note(life: Life, what: string): void {
    this.#history.add(`${this.#time.elapsedMs} ${describeLife(life)} ${what}`);
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
  }

  #checkConservation(): void {
    for (const [id, { steps }] of this.store.state.batches) {
      for (const { counts } of steps) {
        if (isConserved(counts)) continue;
        const message = `batch ${id} does not add up: ${JSON.stringify(counts)}`;
        this.#fail(new SluiceError("CONSERVATION_BROKEN", message, { hint: "A bug in Sluice." }));
      }
    }
  }

  /** Moves time until the work has settled, and returns its result. */
  async play<Result>(work: Promise<Result>): Promise<Result> {
    let settled = false;
    const settle = (): void => {
      settled = true;
    };
    work.then(settle, settle);
    const { virtualMsMax } = this.#options;
    const isDone = (): boolean => settled || this.#failure !== null;
    while (!(await this.#time.run(isDone, virtualMsMax - this.elapsedMs))) {
      // The awaited work may be real, without `world.real`.
      if (this.#time.isEmpty && (await this.#waitReally(isDone))) continue;
      // A failed process is usually the reason.
      for (const failure of this.unreportedFailures) throw failure as Error;
      throw this.#describeStuck();
    }
    if (this.#failure !== null) throw this.#failure.error as Error;
    return work;
  }

  /** False when nothing has happened for as long as a handler may take. */
  async #waitReally(isDone: () => boolean): Promise<boolean> {
    const hold = this.#time.hold(this.#options.hangAfterRealMs);
    const hasMoved = await this.#time.run(() => isDone() || !this.#time.isEmpty, 0);
    hold.release();
    return hasMoved;
  }

  #describeStuck(): SluiceError {
    const { virtualMsMax } = this.#options;
    const what = this.#time.isEmpty
      ? "nothing can happen in this world any more"
      : `${virtualMsMax} ms of virtual time have passed`;
    const last = this.history.slice(-5).map((line) => `\n  ${line}`);
    return new SluiceError(
      "WORLD_STUCK",
      `${what}, and what the test waits for has not happened. The last events:${last.join("")}`,
      {
        hint: "Wrap what waits for something real in world.real(...), give a handler that hangs a time limit, or raise virtualMsMax.",
      },
    );
  }

  /**
   * Closes every engine, waits for handlers with real work, and stops all clocks. An engine that
   * does not close, because its own store calls fail, is dropped: its world has ended anyway.
   */
  async end(): Promise<void> {
    this.#isEnding = true;
    const engines = this.#living.flatMap(({ engine }) => (engine === null ? [] : [engine]));
    let closed = false;
    void Promise.allSettled(engines.map((engine) => engine.close())).then(() => {
      closed = true;
    });
    // A process that dies meanwhile will not answer any more.
    const isOver = (): boolean => closed || this.#living.length < engines.length;
    await this.#time.run(isOver, CLOSE_MS_MAX);
    for (const life of this.#living) this.#kill(life, "the end");
    this.#clock.die();
    await this.#time.run(() => !this.#time.isHeld, 0);
    this.#closeScopes();
  }

  get #living(): Life[] {
    return [...this.#processes.values()].flatMap(({ life }) =>
      life?.alive === true ? [life] : [],
    );
  }

  /** Errors of processes whose outcome was not awaited. */
  get unreportedFailures(): readonly unknown[] {
    return [...this.#processes.values()].flatMap(({ unreportedFailure }) =>
      unreportedFailure === null ? [] : [unreportedFailure.error],
    );
  }
}
