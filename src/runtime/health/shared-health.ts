/**
 * The state of a worker's main loop, in memory that it shares with the health thread. The loop
 * writes and the thread reads, without locks: neither ever waits.
 *
 * Every number has its own place and its own meaning. An instant is eight bytes at a multiple of
 * eight, which a 64-bit machine writes at once; counts and flags are written with Atomics. So
 * nothing is ever read half written, and values that are read together are at most some
 * microseconds apart. The code of a fatal error is complete before the status says that there is
 * one.
 */
import { type HealthSample, WORKER_STATUSES, type WorkerStatus } from "../../core/fleet/health.ts";

const INSTANTS = [
  "beatAt",
  "taskStartedAt",
  "expectedMs",
  "callLimitMs",
  "progressAt",
  "troubleAt",
  "answeredAt",
  "renewedAt",
] as const;
type InstantName = (typeof INSTANTS)[number];

const COUNTS = [
  "status",
  "isStopping",
  "running",
  "pending",
  "worker",
  "leaseMs",
  "renewMs",
  "fatalBytes",
  "renewals",
] as const;
type CountName = (typeof COUNTS)[number];

const FATAL_BYTES_MAX = 64;
const COUNTS_AT = INSTANTS.length * Float64Array.BYTES_PER_ELEMENT;
const FATAL_AT = COUNTS_AT + COUNTS.length * Int32Array.BYTES_PER_ELEMENT;

/** What another thread needs to renew a worker's leases. */
export interface LeaseTerms {
  readonly worker: number;
  readonly leaseMs: number;
  readonly renewMs: number;
}

export class SharedHealth {
  readonly buffer: SharedArrayBuffer;
  readonly #instants: Float64Array;
  readonly #counts: Int32Array;
  readonly #fatal: Uint8Array;

  constructor(buffer = new SharedArrayBuffer(FATAL_AT + FATAL_BYTES_MAX)) {
    this.buffer = buffer;
    this.#instants = new Float64Array(buffer, 0, INSTANTS.length);
    this.#counts = new Int32Array(buffer, COUNTS_AT, COUNTS.length);
    this.#fatal = new Uint8Array(buffer, FATAL_AT, FATAL_BYTES_MAX);
  }

  set(name: InstantName, value: number): void {
    this.#instants[PLACES[name]] = value;
  }

  get(name: InstantName): number {
    return this.#instants[PLACES[name]] ?? 0;
  }

  count(name: CountName, value: number): void {
    Atomics.store(this.#counts, PLACES[name], value);
  }

  readCount(name: CountName): number {
    return Atomics.load(this.#counts, PLACES[name]);
  }

  /** Adds 1, from either thread. */
  increment(name: CountName): void {
    Atomics.add(this.#counts, PLACES[name], 1);
  }

  setTerms({ worker, leaseMs, renewMs }: LeaseTerms): void {
    this.count("worker", worker);
    this.count("leaseMs", leaseMs);
    // Written last: a reader that finds it set finds the others set too.
    this.count("renewMs", renewMs);
  }

  /** Null until there is a worker. */
  readTerms(): LeaseTerms | null {
    const renewMs = this.readCount("renewMs");
    if (renewMs === 0) return null;
    return { worker: this.readCount("worker"), leaseMs: this.readCount("leaseMs"), renewMs };
  }

  fail(code: string): void {
    const { written } = new TextEncoder().encodeInto(code, this.#fatal);
    this.count("fatalBytes", written);
    this.count("status", WORKER_STATUSES.failed);
  }

  read(): HealthSample {
    const isRunning = this.readCount("running") > 0;
    const readIfRunning = (name: InstantName): number | null => {
      const value = this.get(name);
      return isRunning && value > 0 ? value : null;
    };
    return {
      status: this.readCount("status") as WorkerStatus,
      isStopping: this.readCount("isStopping") === 1,
      beatAt: this.get("beatAt"),
      taskStartedAt: readIfRunning("taskStartedAt"),
      expectedMs: readIfRunning("expectedMs"),
      callLimitMs: readIfRunning("callLimitMs"),
      pending: this.readCount("pending"),
      progressAt: this.get("progressAt"),
      troubleAt: this.get("troubleAt"),
      answeredAt: this.get("answeredAt"),
      fatalCode: this.#readFatalCode(),
    };
  }

  #readFatalCode(): string | null {
    const bytes = this.readCount("fatalBytes");
    // A decoder does not accept shared memory.
    return bytes === 0 ? null : new TextDecoder().decode(this.#fatal.slice(0, bytes));
  }
}

const PLACES = Object.fromEntries(
  [...INSTANTS.entries(), ...COUNTS.entries()].map(([place, name]) => [name, place]),
) as Record<InstantName | CountName, number>;
