/**
 * Says, where another thread can see it, that the main loop of a worker lives and what it is at. It
 * is told of everything that begins and ends: handler calls, reads, questions to the store. Learns on
 * the way how long the handlers take.
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

/** Often enough for limits of a second, and nothing beside what a loop does anyway. */
const BEAT_MS = 250;
/** After so many calls the expected duration is computed anew. */
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

  /** It takes nothing new; what it has in hand is watched still. */
  noteStopping(): void {
    this.pulse.count("isStopping", 1);
  }

  /** A worker that has failed stays failed. */
  noteStopped(): void {
    this.#cancelBeat?.();
    const { running, stopped } = WORKER_STATUSES;
    if (this.pulse.readCount("status") === running) this.pulse.count("status", stopped);
  }

  /** The code alone: a message may name what is nobody's business on a page. */
  noteFatal(error: unknown): void {
    this.pulse.fail(describeError(error).code);
  }

  /** The loop has renewed what it holds, or has seen that it holds nothing. */
  noteRenewal(at: number): void {
    this.pulse.set("renewedAt", at);
  }

  /** The store refused and is asked again. */
  noteTrouble(): void {
    this.pulse.set("troubleAt", this.#clock.monotonicMs());
  }

  /** Pipelines that this worker has, for whoever says so in its place while it is busy. */
  noteServed(served: readonly Served[]): void {
    this.#onServed(served);
  }

  onServed(listener: (served: readonly Served[]) => void): void {
    this.#onServed = listener;
  }

  /**
   * Something is under way for as long as this takes. That it ends means that something moves, unless
   * its answer says otherwise; that it begins does not, while something else is waited for.
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

  /** The store, whose answers to a worker are watched. */
  watchStore(store: Store): Store {
    return {
      ...store,
      work: async (reports, lease) => {
        // A worker of several steps asks for work again and again, whatever the others wait for.
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

  /** Which handlers run has changed, or what is known of them. */
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

  /** Whoever declared a duration wants to know when it is not kept; otherwise the time limit acts. */
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
