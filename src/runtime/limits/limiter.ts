/**
 * Lets the items of limited steps start: draws tokens from the store in small portions, gives the
 * right to start to free slots, and gives back chunks whose items would only wait. Waiting items
 * hold no slot, and hold a lease only for a moment.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TokenNeed } from "../../ports/store/token-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { Log } from "../system/log.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import { listDemands } from "./token-demand.ts";
import {
  LimitGroup,
  nameNeed,
  planLimitWait,
  type StartRight,
  type Turn,
} from "./waiting-items.ts";

export interface LimiterParts {
  readonly store: Pick<Store, "draw">;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Whether a cap lets another item of the run start. */
  readonly mayStart: (run: ChunkRun, now: number) => boolean;
  /** How many items could start in the next moment if they had the right to. */
  readonly countStartable: (withinMs: number) => number;
  /** Something may start now. */
  readonly onRights: () => void;
  /** Its lease has expired: nothing more of it starts. */
  readonly onLost: (run: ChunkRun) => void;
  /** All remaining items of the run wait for a limit: the chunk is to be given back. */
  readonly onRest: (run: ChunkRun) => void;
  /** A key was closed: rights that were granted before are void. */
  readonly onClosed: () => void;
  readonly onFatal: (error: unknown) => void;
}

/** What an item must draw from: its key's bucket, and its batch's. */
export interface Needs {
  readonly tokenNeed: TokenNeed | null;
  readonly pace: TokenNeed | null;
}

/** A chunk whose next item starts within this time is kept. */
const HOLD_MS = 1_000;
/** How far ahead tokens are requested. */
const AHEAD_MS = 200;
/** How much more may be requested than was used since the last answer. */
const GROWTH = 2;
/** Waiting items are checked at least this often. */
const LOOK_MS = 1_000;
/** The delay after a failed store call. */
const RETRY_MS = 250;
/** The slowest of the last calls is the estimate for the next one. */
const CALLS_REMEMBERED = 8;
const SLACK_FACTOR = 2;

export class Limiter {
  readonly #parts: LimiterParts;
  readonly loopBackoff: LoopBackoff;
  /** By batch where it has a pace; all others share one group. */
  readonly #groups = new Map<string, LimitGroup>();
  /** If there is only one group, it is used for every item without iterating. */
  #only: LimitGroup | null = null;
  readonly #runs = new Set<ChunkRun>();
  #asking = false;
  #isAskPlanned = false;
  /** Calls that ended since the last answer: others could start in their place. */
  ended = 0;
  #answeredAt = 0;
  #callMs: number[] = [];
  #cancelTimer: (() => void) | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  /** Items that can start within a moment, at the last check. */
  #soon = 0;

  constructor(parts: LimiterParts) {
    this.#parts = parts;
    this.loopBackoff = new LoopBackoff({ event: "limits.draw_failed" }, parts);
  }

  /** Nothing waits: steps without a limit pay only for this check. */
  get isIdle(): boolean {
    return this.#runs.size === 0;
  }

  /** Held items that will start within a moment, as far as known. */
  get soon(): number {
    return this.#soon;
  }

  /**
   * For one key with thousands of starts: a run that finds more tokens than earlier runs need may
   * start all of its items until these tokens expire. What has not started by then comes back here.
   */
  admitWholeChunk(run: ChunkRun, { tokenNeed, pace }: Needs): boolean {
    if (tokenNeed === null || pace !== null) return false;
    const queue = this.#only?.queues.get(nameNeed(tokenNeed));
    const now = this.#parts.clock.monotonicMs();
    const until = queue?.balance.takeMany(run.unstarted, queue.waiting, now) ?? null;
    if (until === null) return false;
    run.startUntil = until;
    run.hasStarted = true;
    this.#requestSoon();
    return true;
  }

  /** Takes over the unstarted items of a run, all of which draw the same. */
  addAlike(run: ChunkRun, needs: Needs): void {
    this.#runs.add(run);
    this.#addItems(run, run.takeRest(), needs);
    this.#requestSoon();
  }

  /**
   * Takes over the unstarted items of a run; `needs` returns what each item must draw, and should
   * return the same object for neighbours with the same needs.
   */
  add(run: ChunkRun, needs: (index: number) => Needs | null): void {
    this.#runs.add(run);
    let last: Needs | null = null;
    let indexes: number[] = [];
    for (let index = run.takeNext(); index !== -1; index = run.takeNext()) {
      const need = needs(index);
      if (need === null) continue;
      if (last !== null && need !== last) {
        this.#addItems(run, indexes, last);
        indexes = [];
      }
      last = need;
      indexes.push(index);
    }
    if (last !== null) this.#addItems(run, indexes, last);
    this.#requestSoon();
  }

  #addItems(run: ChunkRun, indexes: readonly number[], { tokenNeed, pace }: Needs): void {
    if (indexes.length === 0) return;
    this.#soon += indexes.length;
    this.#findGroup(run, pace).add(run, indexes, tokenNeed, this.#parts.clock.monotonicMs());
  }

  /** Runs that arrive together share one request, and so do calls that just ended. */
  #requestSoon(): void {
    if (this.#isAskPlanned) return;
    this.#isAskPlanned = true;
    void this.#parts.clock.turn().then(() => {
      this.#isAskPlanned = false;
      return this.#request();
    });
  }

  /** The next item that may start now, of this run or of any. */
  take(now: number, run: ChunkRun | null = null): StartRight | null {
    for (let right = this.#takeAny(now, run); right !== null; right = this.#takeAny(now, run)) {
      if (!right.run.isLostAt(now)) {
        right.run.hasStarted = true;
        return right;
      }
      this.drop(right.run);
      this.#parts.onLost(right.run);
    }
    if (run === null) this.#requestSoon();
    return null;
  }

  #takeAny(now: number, run: ChunkRun | null): StartRight | null {
    const right = this.#only === null ? this.#takeInTurn(now, run) : this.#only.take(now, run);
    if (right === null) return null;
    this.#soon = Math.max(0, this.#soon - 1);
    return right;
  }

  #takeInTurn(now: number, run: ChunkRun | null): StartRight | null {
    for (const [batch, limitGroup] of this.#groups) {
      const right = limitGroup.take(now, run);
      if (right === null) continue;
      // The next group's turn.
      this.#groups.delete(batch);
      this.#groups.set(batch, limitGroup);
      return right;
    }
    return null;
  }

  #noteLots(): void {
    const [only = null, ...others] = this.#groups.values();
    this.#only = others.length === 0 ? only : null;
  }

  canTake(now: number): boolean {
    if (this.isIdle) return false;
    return [...this.#groups.values()].some((limitGroup) => limitGroup.canTake(now));
  }

  /** There is a free slot: items that wait without a token may draw one. */
  request(): void {
    if (!this.isIdle) void this.#request();
  }

  /** Drops a run. */
  drop(run: ChunkRun): void {
    if (!this.#runs.delete(run)) return;
    // A caller that still counted these items would lease nothing more.
    this.#soon = this.#runs.size === 0 ? 0 : Math.max(0, this.#soon - run.waiting);
    if (run.waiting > 0) {
      const gone = new Set([run]);
      for (const limitGroup of this.#groups.values()) limitGroup.drop(gone);
    }
    this.#tidy();
  }

  /** Drops all runs, and returns them. */
  clear(): ChunkRun[] {
    const runs = [...this.#runs];
    for (const run of runs) this.drop(run);
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    return runs;
  }

  /** No item of the key starts for this time. */
  close(bucket: string, key: string, forMs: number): void {
    const now = this.#parts.clock.monotonicMs();
    for (const { queues, pace } of this.#groups.values()) {
      for (const { tokenNeed, balance } of [...queues.values(), ...(pace === null ? [] : [pace])]) {
        if (tokenNeed.bucket === bucket && tokenNeed.key === key) balance.close(now + forMs, now);
      }
    }
    this.#parts.onClosed();
    this.review();
  }

  /**
   * Gives back runs that would only wait; also called when a run has nothing under way any more.
   */
  review(): void {
    const now = this.#parts.clock.monotonicMs();
    const soonUntil = now + HOLD_MS;
    this.#soon = 0;
    for (const limitGroup of this.#groups.values()) {
      const turns = limitGroup.estimate(now);
      const resting: [ChunkRun, Turn][] = [];
      for (const [run, turn] of turns) {
        if (turn.startAt <= soonUntil) this.#soon += run.waiting;
        else if (run.inFlight === 0) resting.push([run, turn]);
      }
      for (const [run, turn] of resting) {
        run.limitWait = planLimitWait(turn, run, now);
        this.#runs.delete(run);
        limitGroup.drop(new Set([run]));
        this.#parts.onRest(run);
      }
    }
    this.#tidy();
    this.#setTimer(now);
  }

  #findGroup(run: ChunkRun, pace: TokenNeed | null): LimitGroup {
    const name = pace === null ? "" : run.lease.batch;
    const known = this.#groups.get(name);
    if (known !== undefined) return known;
    const limitGroup = new LimitGroup(pace, this.#parts.mayStart);
    this.#groups.set(name, limitGroup);
    this.#noteLots();
    return limitGroup;
  }

  #tidy(): void {
    const now = this.#parts.clock.monotonicMs();
    for (const [batch, limitGroup] of this.#groups) {
      limitGroup.tidy(now);
      const isBusy = limitGroup.pace?.asking === true || (limitGroup.pace?.backlogUntil ?? 0) > now;
      if (limitGroup.waiting === 0 && limitGroup.queues.size === 0 && !isBusy)
        this.#groups.delete(batch);
    }
    this.#noteLots();
  }

  async #request(): Promise<void> {
    const { store, clock, onRights, onFatal } = this.#parts;
    if (this.#asking || this.#groups.size === 0) return;
    const askedAt = clock.monotonicMs();
    const supply = { startable: this.#countStartable(askedAt), ended: this.ended };
    const asked = listDemands([...this.#groups.values()], supply, askedAt);
    if (asked.length === 0) return this.#setTimer(askedAt);
    this.#asking = true;
    for (const { queue } of asked) queue.asking = true;
    try {
      const draws = asked.map(({ draw }) => draw);
      const grants = await store.draw(draws, this.computeSlackMs());
      const answeredAt = clock.monotonicMs();
      this.#remember(answeredAt - askedAt);
      this.#answeredAt = answeredAt;
      this.loopBackoff.clear();
      this.ended = 0;
      for (const [at, { limitGroup, queue }] of asked.entries()) {
        const grant = grants[at];
        if (grant === undefined) continue;
        // A closed key that opened early: items that waited for its end may start sooner.
        if (queue.balance.waitReason === "closed" && grant.waitReason !== "closed")
          queue.backlogUntil = 0;
        queue.balance.add(grant, askedAt, answeredAt);
        if (limitGroup.pace !== queue) limitGroup.offer(queue);
      }
    } catch (error) {
      const waitMs = this.loopBackoff.note(error);
      if (waitMs === null) return onFatal(error);
      const askAt = clock.monotonicMs() + Math.max(RETRY_MS, waitMs);
      for (const { queue } of asked) queue.balance.askAt = askAt;
    } finally {
      this.#asking = false;
      for (const { queue } of asked) queue.asking = false;
    }
    this.review();
    onRights();
    void this.#request();
  }

  /** From the step's speed; while that is unknown, from the calls that have just ended. */
  #countStartable(now: number): number {
    const { countStartable } = this.#parts;
    const free = countStartable(0);
    const bySpeed = countStartable(AHEAD_MS);
    if (free === 0) return bySpeed;
    const endedPerMs = this.ended / Math.max(1, now - this.#answeredAt);
    const soon = Math.min(GROWTH * this.ended, Math.ceil(endedPerMs * AHEAD_MS));
    return Math.max(bySpeed, free + soon);
  }

  /** How long drawn tokens must be valid, by recent answer times. */
  computeSlackMs(): number {
    return SLACK_FACTOR * Math.max(1, ...this.#callMs);
  }

  /**
   * A late item goes back; the next tokens are drawn with a longer validity, or none would ever be
   * in time.
   */
  isLate(until: number, since: number): boolean {
    const now = this.#parts.clock.monotonicMs();
    if (now < until) return false;
    this.#remember(now - since);
    return true;
  }

  #remember(tookMs: number): void {
    this.#callMs = [...this.#callMs.slice(1 - CALLS_REMEMBERED), tookMs];
  }

  /** Wakes when the next token becomes valid, or when to ask again. */
  #setTimer(now: number): void {
    const nextAt = this.#findLookAt(now);
    const isNeeded = nextAt !== Number.POSITIVE_INFINITY;
    // An earlier timer checks again then: setting a new timer at each check would be expensive.
    if (isNeeded && this.#cancelTimer !== null && this.#timerAt <= nextAt) return;
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#timerAt = nextAt;
    if (!isNeeded) return;
    this.#cancelTimer = this.#parts.clock.after(Math.max(1, Math.ceil(nextAt - now)), () => {
      this.#cancelTimer = null;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.#wake();
    });
  }

  #findLookAt(now: number): number {
    const hasSlot = this.#parts.countStartable(0) > 0;
    let nextAt = Number.POSITIVE_INFINITY;
    for (const limitGroup of this.#groups.values()) {
      if (limitGroup.waiting === 0) continue;
      // In any case a bounded wait: nothing waits for ever.
      nextAt = Math.min(nextAt, now + LOOK_MS);
      for (const at of limitGroup.listNextAts(now)) {
        // The clock advances: a token may have become valid since the last check.
        if (at > now) nextAt = Math.min(nextAt, at);
        else if (hasSlot) nextAt = now;
      }
    }
    return nextAt;
  }

  #wake(): void {
    const now = this.#parts.clock.monotonicMs();
    for (const limitGroup of this.#groups.values()) {
      for (const queue of limitGroup.queues.values()) {
        if (queue.entries.length > 0 && queue.balance.canTake(now)) limitGroup.offer(queue);
      }
    }
    this.#parts.onRights();
    void this.#request();
  }
}
