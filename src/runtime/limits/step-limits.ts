/**
 * The limits of one step in one worker: which items need which tokens, closing a key when a server
 * throttles, and what a guarded run may start.
 */
import { SLACK_MS_MAX } from "../../core/limits/token-bucket.ts";
import { describeOutages, type StepPace } from "../../core/batch/step.ts";
import { sleep } from "../../ports/clock.ts";
import { namePaceBucket, type TokenNeed } from "../../ports/store/token-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeasedChunk } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { Limiter, type LimiterParts, type Needs } from "./limiter.ts";
import type { Step } from "../pipeline/step.ts";
import { TokenBalance } from "./token-balance.ts";
import { nameNeed, planLimitWait, Queue } from "./waiting-items.ts";

export interface StepLimitsParts extends LimiterParts {
  readonly store: Store;
  readonly step: Step;
  readonly onBadItem: (run: ChunkRun, index: number, item: unknown, error: unknown) => void;
}

/** Which items of a guarded run may start, and until when. */
export interface Admission {
  readonly indexes: readonly number[];
  /** These may be requested again when the others have run. */
  readonly later: readonly number[];
  readonly until: number;
}

/** A guarded start is written first, which takes time: estimated from the last ones. */
const GUARDED_SLACK_MS = 100;
const GUARDED_SLACK_MS_MIN = 20;
const GUARDED_SLACK_FACTOR = 4;
/** A guarded run waits this long for a token before it continues without the item. */
const GUARDED_WAIT_MS = 1_000;

export class StepLimits {
  readonly limiter: Limiter;
  readonly #parts: StepLimitsParts;
  /** What every item draws, where no item needs to be read for it: reading is most of the cost. */
  readonly #fixed: TokenNeed | null;
  readonly #guardedBalances = new WeakMap<ChunkRun, Map<string, TokenBalance>>();
  #guardedSlackMs = GUARDED_SLACK_MS;
  #admittedAt = 0;

  constructor(parts: StepLimitsParts) {
    this.#parts = parts;
    const { rate, itemSchema } = parts.step;
    this.#fixed = itemSchema === null ? (rate?.fixed ?? null) : null;
    this.limiter = new Limiter(parts);
  }

  /** Takes over the unstarted items of a run; false when all may start without limits. */
  add(run: ChunkRun): boolean {
    if (!this.#applyTo(run)) return false;
    const pace = describePace(run);
    if (this.#parts.step.rate === null || this.#fixed !== null) {
      const needs = { tokenNeed: this.#fixed, pace };
      if (this.limiter.admitWholeChunk(run, needs)) return false;
      this.limiter.addAlike(run, needs);
      return true;
    }
    let last: Needs | null = null;
    this.limiter.add(run, (index) => {
      const tokenNeed = this.#readTokenNeed(run, index);
      if (tokenNeed === undefined) return null;
      if (last?.tokenNeed !== tokenNeed) last = { tokenNeed, pace };
      return last;
    });
    return true;
  }

  /** The unstarted items of a run that could not start all in time. */
  resume(run: ChunkRun): void {
    run.startUntil = Number.POSITIVE_INFINITY;
    this.limiter.addAlike(run, { tokenNeed: this.#fixed, pace: describePace(run) });
  }

  /** Whether its items need anything to be started. */
  #applyTo({ pace }: ChunkRun): boolean {
    return this.#parts.step.rate !== null || pace !== null;
  }

  /** A server throttles: no item of the key starts for this time, in any worker. */
  throttle(item: unknown, forMs: number): void {
    const { step, store, onFatal } = this.#parts;
    if (step.rate === null || item === undefined) return;
    let tokenNeed: TokenNeed;
    try {
      tokenNeed = step.rate.readTokenNeed(item);
    } catch {
      // The item was started; an unreadable key is its own failure.
      return;
    }
    const { bucket, key } = tokenNeed;
    this.limiter.close(bucket, key, forMs);
    store.closeBucket({ bucket, key }, forMs).catch(onFatal);
  }

  /**
   * The system that the batch's items are sent through is unavailable: nothing of the batch starts
   * for a while, in any worker.
   */
  noteOutage({ lease, pace }: ChunkRun): void {
    if (pace === null) return;
    const { bucket, key } = namePaceBucket(lease.batch, lease.step);
    this.limiter.close(bucket, key, pace.outageMs);
    this.#countOutage(lease, pace).catch(this.#parts.onFatal);
  }

  async #countOutage({ batch, step }: LeasedChunk, pace: StepPace): Promise<void> {
    const { store } = this.#parts;
    const outages = await store.noteOutage(batch, step, pace.outageMs);
    if (outages >= pace.outagesMax) await store.fail(batch, describeOutages(outages));
  }

  /**
   * Which of a guarded run's items may start now. They start one wave at a time, after their starts
   * were written. Items that would have to wait until the first could not start any more come with
   * a later wave; the others go back with their chunk.
   */
  async admit(run: ChunkRun, indexes: readonly number[]): Promise<Admission> {
    if (!this.#applyTo(run)) return { indexes, later: [], until: Number.POSITIVE_INFINITY };
    const pace = describePace(run);
    const admitted: number[] = [];
    let until = Number.POSITIVE_INFINITY;
    for (const [at, index] of indexes.entries()) {
      const tokenNeed = this.#readTokenNeed(run, index);
      if (tokenNeed === undefined) continue;
      const needed = [pace, tokenNeed].filter((one) => one !== null);
      const good = await this.#acquire(run, needed, until - this.#guardedSlackMs / 2);
      if (good === "later") {
        return { indexes: admitted, later: indexes.slice(at), until: this.#note(until) };
      }
      if (good === null) continue;
      admitted.push(index);
      until = Math.min(until, good);
    }
    return { indexes: admitted, later: [], until: this.#note(until) };
  }

  #note(until: number): number {
    this.#admittedAt = this.#parts.clock.monotonicMs();
    return until;
  }

  /** Whether it is too late to start what was admitted until then, after writing the starts. */
  isLate(until: number): boolean {
    const now = this.#parts.clock.monotonicMs();
    if (until === Number.POSITIVE_INFINITY) return false;
    // Only as long as needed: meanwhile no other worker gets these tokens.
    const tookMs = Math.max(GUARDED_SLACK_MS_MIN, GUARDED_SLACK_FACTOR * (now - this.#admittedAt));
    this.#guardedSlackMs = Math.min(SLACK_MS_MAX, Math.max(tookMs, this.#guardedSlackMs / 2));
    return now >= until;
  }

  /**
   * Takes one token from each bucket. Returns until when they are valid; null when one bucket has
   * none, "later" when they are not valid in time. Drawn tokens that are not taken are kept for the
   * next item.
   */
  async #acquire(
    run: ChunkRun,
    supplies: readonly TokenNeed[],
    inTime: number,
  ): Promise<number | "later" | null> {
    const { clock } = this.#parts;
    const balances: TokenBalance[] = [];
    let startAt = clock.monotonicMs();
    for (const tokenNeed of supplies) {
      const balance = await this.#fillBalance(run, tokenNeed);
      const now = clock.monotonicMs();
      const nextAt = balance.findNextAt(now);
      if (balance.count(now) === 0 || nextAt - now > GUARDED_WAIT_MS) {
        const limit = new Queue(tokenNeed);
        limit.balance.waitReason = balance.waitReason;
        run.limitWait = planLimitWait({ startAt: nextAt, limit }, run, now);
        return null;
      }
      balances.push(balance);
      startAt = Math.max(startAt, nextAt);
    }
    if (startAt > inTime) return "later";
    await sleep(clock, startAt - clock.monotonicMs());
    const now = clock.monotonicMs();
    if (balances.some((balance) => !balance.canTake(now))) {
      // One token expired while another was awaited, and would again: tokens must last longer.
      this.#guardedSlackMs = Math.min(SLACK_MS_MAX, 2 * this.#guardedSlackMs);
      return null;
    }
    return Math.min(...balances.map((balance) => balance.take(now) ?? now));
  }

  /** The tokens of one bucket that a guarded run holds; draws one when there is none. */
  async #fillBalance(run: ChunkRun, tokenNeed: TokenNeed): Promise<TokenBalance> {
    const { store, clock } = this.#parts;
    const balances = this.#guardedBalances.get(run) ?? new Map<string, TokenBalance>();
    this.#guardedBalances.set(run, balances);
    const name = nameNeed(tokenNeed);
    const balance = balances.get(name) ?? new TokenBalance();
    balances.set(name, balance);
    const askedAt = clock.monotonicMs();
    if (balance.count(askedAt) > 0) return balance;
    try {
      const slackMs = Math.max(this.#guardedSlackMs, this.limiter.computeSlackMs());
      const [grant] = await store.draw([{ ...tokenNeed, count: 1 }], slackMs);
      if (grant !== undefined) balance.add(grant, askedAt, clock.monotonicMs());
    } catch (error) {
      // The item goes on without a token, and comes back with its chunk's next run.
      if (this.limiter.loopBackoff.note(error) === null) throw error;
    }
    return balance;
  }

  /** Undefined when the item can never start, and has failed because of that. */
  #readTokenNeed(run: ChunkRun, index: number): TokenNeed | null | undefined {
    const { step, onBadItem } = this.#parts;
    if (step.rate === null) return null;
    if (this.#fixed !== null) return this.#fixed;
    const raw = readItem(run, index);
    if (raw === UNREADABLE) return null;
    let item = raw;
    try {
      const checked = step.itemSchema === null ? raw : checkItem(step.itemSchema, raw);
      if (!(checked instanceof Promise)) item = checked;
      else checked.catch(() => undefined);
    } catch {
      // An invalid item of this step fails as soon as it is checked: it needs no token.
      return null;
    }
    try {
      return step.rate.readTokenNeed(item);
    } catch (error) {
      onBadItem(run, index, item, error);
      return undefined;
    }
  }
}

function describePace({ pace, lease }: ChunkRun): TokenNeed | null {
  if (pace === null) return null;
  const ref = namePaceBucket(lease.batch, lease.step);
  return { ...ref, spec: { kind: "pace", ...pace }, cost: 1 };
}

const UNREADABLE = Symbol("unreadable");

/** An unreadable item fails as soon as it is read: it needs no token. */
function readItem({ items }: ChunkRun, index: number): unknown {
  try {
    return items.at(index);
  } catch {
    return UNREADABLE;
  }
}
