/**
 * The limits of one step in one worker: which items need which tokens, who is told when a server
 * asks to be left alone, and what a careful run may start.
 */
import { SLACK_MS_MAX } from "../../core/limits/token-bucket.ts";
import { describeOutages, type StepPace } from "../../core/batch/step.ts";
import { sleep } from "../../ports/clock.ts";
import { namePaceBucket, type Supply } from "../../ports/store/token-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeasedChunk } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { Limiter, type LimiterParts, type Needs } from "./limiter.ts";
import type { Step } from "../pipeline/step.ts";
import { TokenPurse } from "./token-balance.ts";
import { nameSupply, planRest, Queue } from "./waiting-items.ts";

export interface StepLimitsParts extends LimiterParts {
  readonly store: Store;
  readonly step: Step;
  readonly onBadItem: (run: ChunkRun, index: number, item: unknown, error: unknown) => void;
}

/** What of a careful run may start, and until when. */
export interface Admission {
  readonly indexes: readonly number[];
  /** These may be asked for again, when the others have run. */
  readonly later: readonly number[];
  readonly until: number;
}

/** A careful start is written down first, and that may take its time: as the last ones did. */
const CAREFUL_SLACK_MS = 100;
const CAREFUL_SLACK_MS_MIN = 20;
const CAREFUL_SLACK_FACTOR = 4;
/** A careful run waits this long for a token before it goes on without the item. */
const CAREFUL_WAIT_MS = 1_000;

export class StepLimits {
  readonly limiter: Limiter;
  readonly #parts: StepLimitsParts;
  /** What every item draws, where no look at it is needed: reading one is most of what it costs. */
  readonly #fixed: Supply | null;
  readonly #carefulPurses = new WeakMap<ChunkRun, Map<string, TokenPurse>>();
  #carefulSlackMs = CAREFUL_SLACK_MS;
  #admittedAt = 0;

  constructor(parts: StepLimitsParts) {
    this.#parts = parts;
    const { rate, itemSchema } = parts.step;
    this.#fixed = itemSchema === null ? (rate?.fixed ?? null) : null;
    this.limiter = new Limiter(parts);
  }

  /** Takes over what is left to start of a run; false when it may all start as it is. */
  add(run: ChunkRun): boolean {
    if (!this.#applyTo(run)) return false;
    const pace = describePace(run);
    if (this.#parts.step.rate === null || this.#fixed !== null) {
      const needs = { supply: this.#fixed, pace };
      if (this.limiter.letThrough(run, needs)) return false;
      this.limiter.addAlike(run, needs);
      return true;
    }
    let last: Needs | null = null;
    this.limiter.add(run, (index) => {
      const supply = this.#readSupply(run, index);
      if (supply === undefined) return null;
      if (last?.supply !== supply) last = { supply, pace };
      return last;
    });
    return true;
  }

  /** What is left of one that could not start all of its items in time. */
  resume(run: ChunkRun): void {
    run.startUntil = Number.POSITIVE_INFINITY;
    this.limiter.addAlike(run, { supply: this.#fixed, pace: describePace(run) });
  }

  /** Whether its items need anything to be started. */
  #applyTo({ pace }: ChunkRun): boolean {
    return this.#parts.step.rate !== null || pace !== null;
  }

  /** A server asks to be left alone: nothing of the item's key starts meanwhile, anywhere. */
  throttle(item: unknown, forMs: number): void {
    const { step, store, onFatal } = this.#parts;
    if (step.rate === null || item === undefined) return;
    let supply: Supply;
    try {
      supply = step.rate.readSupply(item);
    } catch {
      // Whatever it is, it was started: its key is its own affair.
      return;
    }
    const { bucket, key } = supply;
    this.limiter.close(bucket, key, forMs);
    store.closeBucket({ bucket, key }, forMs).catch(onFatal);
  }

  /** What the batch goes out through is away: nothing of it starts for a while, anywhere. */
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
   * Which of a careful run's items may start now. They are started one wave at a time, after their
   * starts were written. Those that must wait until the first could not start any more come with a
   * later wave; the others go back with their chunk.
   */
  async admit(run: ChunkRun, indexes: readonly number[]): Promise<Admission> {
    if (!this.#applyTo(run)) return { indexes, later: [], until: Number.POSITIVE_INFINITY };
    const pace = describePace(run);
    const admitted: number[] = [];
    let until = Number.POSITIVE_INFINITY;
    for (const [at, index] of indexes.entries()) {
      const supply = this.#readSupply(run, index);
      if (supply === undefined) continue;
      const needed = [pace, supply].filter((one) => one !== null);
      const good = await this.#acquire(run, needed, until - this.#carefulSlackMs / 2);
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

  /** Whether it is too late to start what was admitted until then, now that it is written down. */
  isLate(until: number): boolean {
    const now = this.#parts.clock.monotonicMs();
    if (until === Number.POSITIVE_INFINITY) return false;
    // As long as it takes, and not longer: for so long nobody else gets these tokens.
    const tookMs = Math.max(CAREFUL_SLACK_MS_MIN, CAREFUL_SLACK_FACTOR * (now - this.#admittedAt));
    this.#carefulSlackMs = Math.min(SLACK_MS_MAX, Math.max(tookMs, this.#carefulSlackMs / 2));
    return now >= until;
  }

  /**
   * Takes one token of each; until when they are good, null when there is one that is not, and
   * "later" when they are not good in time. What is drawn and not taken is kept for the next one.
   */
  async #acquire(
    run: ChunkRun,
    supplies: readonly Supply[],
    inTime: number,
  ): Promise<number | "later" | null> {
    const { clock } = this.#parts;
    const purses: TokenPurse[] = [];
    let startAt = clock.monotonicMs();
    for (const supply of supplies) {
      const purse = await this.#fillPurse(run, supply);
      const now = clock.monotonicMs();
      const nextAt = purse.findNextAt(now);
      if (purse.count(now) === 0 || nextAt - now > CAREFUL_WAIT_MS) {
        const limit = new Queue(supply);
        limit.purse.holdUp = purse.holdUp;
        run.rest = planRest({ startAt: nextAt, limit }, run, now);
        return null;
      }
      purses.push(purse);
      startAt = Math.max(startAt, nextAt);
    }
    if (startAt > inTime) return "later";
    await sleep(clock, startAt - clock.monotonicMs());
    const now = clock.monotonicMs();
    if (purses.some((purse) => !purse.canTake(now))) {
      // One was lost while another was waited for, and would be the next time: they must last longer.
      this.#carefulSlackMs = Math.min(SLACK_MS_MAX, 2 * this.#carefulSlackMs);
      return null;
    }
    return Math.min(...purses.map((purse) => purse.take(now) ?? now));
  }

  /** The tokens of one bucket that a careful run holds; draws one when there is none. */
  async #fillPurse(run: ChunkRun, supply: Supply): Promise<TokenPurse> {
    const { store, clock } = this.#parts;
    const purses = this.#carefulPurses.get(run) ?? new Map<string, TokenPurse>();
    this.#carefulPurses.set(run, purses);
    const name = nameSupply(supply);
    const purse = purses.get(name) ?? new TokenPurse();
    purses.set(name, purse);
    const askedAt = clock.monotonicMs();
    if (purse.count(askedAt) > 0) return purse;
    try {
      const slackMs = Math.max(this.#carefulSlackMs, this.limiter.computeSlackMs());
      const [grant] = await store.draw([{ ...supply, count: 1 }], slackMs);
      if (grant !== undefined) purse.add(grant, askedAt, clock.monotonicMs());
    } catch (error) {
      // Its item goes on without a token, and comes with its chunk's next run.
      if (this.limiter.setbacks.note(error) === null) throw error;
    }
    return purse;
  }

  /** Undefined when the item cannot be started, and has failed by that. */
  #readSupply(run: ChunkRun, index: number): Supply | null | undefined {
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
      // It is no item of this step, and will be told so as soon as it is looked at: no token for that.
      return null;
    }
    try {
      return step.rate.readSupply(item);
    } catch (error) {
      onBadItem(run, index, item, error);
      return undefined;
    }
  }
}

function describePace({ pace, lease }: ChunkRun): Supply | null {
  if (pace === null) return null;
  const ref = namePaceBucket(lease.batch, lease.step);
  return { ...ref, spec: { kind: "pace", ...pace }, cost: 1 };
}

const UNREADABLE = Symbol("unreadable");

/** One that cannot be read will fail for that as soon as it is looked at: no token for that. */
function readItem({ items }: ChunkRun, index: number): unknown {
  try {
    return items.at(index);
  } catch {
    return UNREADABLE;
  }
}
