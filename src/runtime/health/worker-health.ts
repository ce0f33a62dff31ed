/**
 * Shows another thread that the main loop of a worker lives, and what it is doing. It gets every
 * begin and end of handler calls, reads and store calls. It also learns how long the handlers take.
 */
import { describeError } from "../../core/base/errors.ts";
import { ExpectedDuration } from "../../core/fleet/expected-duration.ts";
import { WORKER_STATUSES } from "../../core/fleet/health.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Served } from "../../ports/store/worker-store.ts";
import { SharedLeases } from "./shared-leases.ts";
import { type LeaseTerms, SharedHealth } from "./shared-health.ts";
import type { Step } from "../pipeline/step.ts";

/** Often enough for limits of a second, and cheap for the loop. */
const BEAT_MS = 250;
/** After this many calls the expected duration is computed again. */
const CALLS_PER_LOOK = 32;

export class WorkerHealth {
  readonly pulse = new SharedHealth();
  readonly leases = new SharedLeases();
  readonly #clock: Clock;
  readonly #handlers = new Map<string, HandlerTimings>();
  #onServed: (served: readonly Served[]) => void = () => undefined;
  #pending = 0;
  #cancelBeat: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The worker runs from now on. */
  start(terms: LeaseTerms): void {
    const now = this.#clock.monotonicMs();
    for (const name of ["progressAt", "answeredAt", "renewedAt"] as const) {
      this.pulse.set(name, now);
    }
    this.pulse.setTerms(terms);
    this.#beat();
    this.pulse.count("status", WORKER_STATUSES.running);
  }

  /** The worker takes nothing new; its running items are still watched. */
  noteStopping(): void {
    this.pulse.count("isStopping", 1);
  }

  /** A worker that has failed stays failed. */
  noteStopped(): void {
    this.#cancelBeat?.();
    const { running, stopped } = WORKER_STATUSES;
    if (this.pulse.readCount("status") === running) this.pulse.count("status", stopped);
  }

  /** Only the code: a message may contain private data, which must not be served. */
  noteFatal(error: unknown): void {
    this.pulse.fail(describeError(error).code);
  }

  /** The loop has renewed its leases, or holds none. */
  noteRenewal(at: number): void {
    this.pulse.set("renewedAt", at);
  }

  /** The store refused and the call will be retried. */
  noteTrouble(): void {
    this.pulse.set("troubleAt", this.#clock.monotonicMs());
  }

  /** Pipelines of this worker, for the thread that sends heartbeats while the loop is busy. */
  noteServed(served: readonly Served[]): void {
    this.#onServed(served);
  }

  onServed(listener: (served: readonly Served[]) => void): void {
    this.#onServed = listener;
  }

  /**
   * Something is under way while this runs. Its end counts as progress, unless `hasMoved` says
   * otherwise; its beginning does not, while something else is under way.
   */
  async during<T>(act: () => Promise<T>, hasMoved: (answer: T) => boolean = isMove): Promise<T> {
    this.#count(1);
    if (this.#pending === 1) this.#noteProgress(this.#clock.monotonicMs());
    let moved = true;
    try {
      const answer = await act();
      moved = hasMoved(answer);
      return answer;
    } finally {
      this.#count(-1);
      if (moved) this.#noteProgress(this.#clock.monotonicMs());
    }
  }

  /** Watches the store's answers to a worker. */
  watchStore(store: Store): Store {
    return {
      ...store,
      work: async (reports, lease) => {
        // A worker with several steps asks for work again and again, whatever the others wait for.
        const result = await this.during(
          () => store.work(reports, lease),
          ({ leased }) => leased.length > 0 || reports.length > 0,
        );
        this.pulse.set("answeredAt", this.#clock.monotonicMs());
        return result;
      },
    };
  }

  watchHandler(pipeline: string, step: Step, abortGraceMs: number): HandlerTimings {
    const name = `${pipeline}/${step.name}`;
    const known = this.#handlers.get(name);
    if (known !== undefined) return known;
    const pulse = new HandlerTimings(this, step, step.timeLimitMs + abortGraceMs);
    this.#handlers.set(name, pulse);
    return pulse;
  }

  /** A call has begun or ended. */
  change(by: 1 | -1, now: number): void {
    this.#count(by);
    this.#noteProgress(now);
  }

  #count(by: 1 | -1): void {
    this.#pending += by;
    this.pulse.count("pending", this.#pending);
  }

  #noteProgress(now: number): void {
    this.pulse.set("progressAt", now);
  }

  /** The set of running handlers has changed, or their expected durations. */
  review(): void {
    const running = [...this.#handlers.values()].filter((handler) => handler.running > 0);
    this.pulse.set("expectedMs", Math.max(0, ...running.map((one) => one.expectedMs ?? 0)));
    this.pulse.set("callLimitMs", Math.max(0, ...running.map((one) => one.callLimitMs ?? 0)));
    this.pulse.count("running", running.length);
  }

  #beat(): void {
    this.pulse.set("beatAt", this.#clock.monotonicMs());
    this.#cancelBeat = this.#clock.after(BEAT_MS, () => this.#beat());
  }
}

const isMove = (): boolean => true;

/** The calls of one step's handler. */
export class HandlerTimings {
  readonly #health: WorkerHealth;
  readonly #declaredMs: number | null;
  readonly #limitMs: number;
  readonly #durations = new ExpectedDuration();
  #learnedMs: number | null = null;
  #ended = 0;
  running = 0;

  constructor(health: WorkerHealth, { expectedMs }: Pick<Step, "expectedMs">, limitMs: number) {
    this.#health = health;
    this.#declaredMs = expectedMs;
    this.#limitMs = limitMs;
  }

  get expectedMs(): number | null {
    return this.#declaredMs ?? this.#learnedMs;
  }

  /**
   * A user who declared a duration wants to know when it is exceeded; otherwise the time limit
   * acts.
   */
  get callLimitMs(): number | null {
    return this.#declaredMs === null ? this.#limitMs : null;
  }

  begin(now: number): void {
    this.running++;
    this.#health.pulse.set("taskStartedAt", now);
    this.#health.change(1, now);
    if (this.running === 1) this.#health.review();
  }

  end(startedAt: number, now: number): void {
    this.running--;
    this.#health.change(-1, now);
    this.#durations.add(now - startedAt);
    this.#ended++;
    const isLook = this.#ended % CALLS_PER_LOOK === 0 || this.#ended < CALLS_PER_LOOK;
    if (isLook) this.#learnedMs = this.#durations.computeMs();
    if (isLook || this.running === 0) this.#health.review();
  }
}
