/**
 * A world for tests: one store in memory, any number of processes with the real engine, and virtual
 * time. Every delay and every random number comes from the seed, so one seed gives one history.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { SharedEngineOptions } from "../../runtime/engine/engine-options.ts";
import type { Fault } from "../faults/faults.ts";

export interface WorldOptions {
  /** Another seed gives another order of simultaneous events. Default 1. */
  readonly seed?: number;
  /** The faults to happen. One that never happens fails the test. */
  readonly faults?: readonly Fault[];
  /** For every engine of the world. */
  readonly engine?: SharedEngineOptions;
  /**
   * How long, in real time, virtual time stands still for one handler call that has not settled.
   * After that the call counts as hanging, and virtual time continues. Default 2,000.
   */
  readonly hangAfterRealMs?: number;
  /** How much virtual time may pass before the test counts as stuck. Default 24 hours. */
  readonly virtualMsMax?: number;
}

/** What a process does after its start. It is called again whenever the process is restarted. */
export type Program<Result> = (engine: Engine, life: number) => Result | PromiseLike<Result>;

/** A process that is restarted when it dies, as by a supervisor. */
export type Process<Result> = Unnamed<{
  readonly name: string;
  /** How often it was started. */
  readonly lives: number;
  /** The result of its program, from the life that reached its end; rejects with its error. */
  readonly done: Promise<Result>;
  /** Kills it, like kill -9. It is restarted a second later. */
  kill(): void;
}>;

export interface World {
  readonly seed: number;
  /** Virtual time since the beginning. */
  readonly elapsedMs: number;
  /** The wall clock of this world: it starts at the beginning of 2026. */
  now(): Date;
  /** A number in [0, 1) from the seed. */
  random(): number;
  /**
   * Waits in virtual time. A handler that waits like this does not hold time meanwhile; in a dead
   * process it waits for ever. Rejects with the signal's reason on abort.
   */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
  /** Virtual time stands still while this does something real: for tests and programs. */
  real<Result>(work: () => Result | PromiseLike<Result>): Promise<Result>;
  /** Starts an engine that is not restarted: a test that kills it must use `start`. */
  startEngine(options?: SharedEngineOptions): Promise<Engine>;
  /** Starts a process, and restarts it a second after it died. */
  start<Result>(
    name: string,
    program: Program<Result>,
    options?: SharedEngineOptions,
  ): Process<Awaited<Result>>;
  /** Every commit so far, in the words of fault points: `settle + lease`. */
  readonly commits: readonly string[];
  /** What happened so far, line by line: starts, commits, faults, deaths. */
  readonly history: readonly string[];
}
