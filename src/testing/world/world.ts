/**
 * A world for tests: one store in memory, any number of processes with the real engine on them, and
 * virtual time. Every delay and every draw comes from the seed, so one seed is one history.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { SharedEngineOptions } from "../../runtime/engine/engine-options.ts";
import type { Fault } from "../faults/faults.ts";

export interface WorldOptions {
  /** Another seed is another order of things that happen at once. Default 1. */
  readonly seed?: number;
  /** What is to go wrong. One that never happens fails the test. */
  readonly faults?: readonly Fault[];
  /** For every engine of the world. */
  readonly engine?: SharedEngineOptions;
  /**
   * How long, in real time, time stands still for one handler call that has not settled. After that
   * the call counts as hanging, and virtual time goes on. Default 2,000.
   */
  readonly hangAfterRealMs?: number;
  /** How much virtual time may pass before the test counts as stuck. Default 24 hours. */
  readonly virtualMsMax?: number;
}

/** What a process does from its start on. It is called again whenever the process starts again. */
export type Program<Result> = (engine: Engine, life: number) => Result | PromiseLike<Result>;

/** A process that is started again when it dies, as a supervisor would. */
export type Process<Result> = Unnamed<{
  readonly name: string;
  /** How often it was started. */
  readonly lives: number;
  /** What its program answered, in the life in which it came to its end; rejects with what it threw. */
  readonly done: Promise<Result>;
  /** Kills it, as kill -9 would. It starts again a second later. */
  kill(): void;
}>;

export interface World {
  readonly seed: number;
  /** Virtual time since the beginning. */
  readonly elapsedMs: number;
  /** The wall clock of this world: it begins with the year 2026. */
  now(): Date;
  /** A number in [0, 1) that comes from the seed. */
  random(): number;
  /**
   * Waits in virtual time. A handler that waits so is not in flight meanwhile; in a process that has
   * died it waits for ever. Rejects with the signal's reason when that aborts.
   */
  sleep(delayMs: number, signal?: AbortSignal): Promise<void>;
  /** Virtual time stands still while this does something real: for tests and programs. */
  real<Result>(work: () => Result | PromiseLike<Result>): Promise<Result>;
  /** Starts an engine that nobody starts again: a test that kills it must use `start`. */
  startEngine(options?: SharedEngineOptions): Promise<Engine>;
  /** Starts a process, and starts it again a second after it died. */
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
