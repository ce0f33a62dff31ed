/**
 * The tokens of one bucket that this process holds. By its own monotonic clock each may be used from
 * the moment of the answer on and until the moment of the question plus its time: whenever between
 * the two it was granted, no limit is passed.
 */
import type { WaitReason, TokenGrant } from "../../core/limits/bucket.ts";

/** Tokens of one date: of a high rate thousands are held at once. */
interface Tokens {
  readonly from: number;
  readonly until: number;
  left: number;
}

/** A closed key is not asked about more often; by then whoever closed it has said so to the store. */
const CLOSED_LOOK_MS = 5_000;

export class TokenBalance {
  /** In the order of their dates. */
  #tokens: Tokens[] = [];
  /** Any number may be started before. */
  #openUntil = 0;
  /** It is not worth asking for more before. */
  askAt = 0;
  #closedAt = Number.NEGATIVE_INFINITY;
  /** One that is closed may have been opened meanwhile: it may be asked again from then on. */
  #lookAt = 0;
  /** What kept the store from granting more. */
  waitReason: WaitReason | null = null;

  add(grant: TokenGrant, askedAt: number, answeredAt: number): void {
    const { atOnce, inMs, usableMs, nextInMs, open, waitReason } = grant;
    // Asked before it was closed here: the store did not know of that.
    if (askedAt <= this.#closedAt && waitReason !== "closed") return;
    if (open) this.#openUntil = askedAt + usableMs;
    const hold = (left: number, at: number): void => {
      const from = answeredAt + at;
      const until = askedAt + at + usableMs;
      if (from < until) this.#tokens.push({ from, until, left });
    };
    if (atOnce > 0) hold(atOnce, 0);
    for (const at of inMs) hold(1, at);
    this.askAt = answeredAt + nextInMs;
    this.#lookAt = answeredAt + CLOSED_LOOK_MS;
    this.waitReason = waitReason;
  }

  /** Tokens that may be used now or later; more than anybody needs where nothing limits it. */
  count(now: number): number {
    if (this.#openUntil > now) return Number.MAX_SAFE_INTEGER;
    this.#dropPast(now);
    return this.#tokens.reduce((sum, { left }) => sum + left, 0);
  }

  /** There are tokens, or a closing of which the store may not know yet. */
  isWorthKeeping(now: number): boolean {
    this.#dropPast(now);
    return this.#tokens.length > 0 || (this.waitReason === "closed" && now < this.#lookAt);
  }

  /** From when on the next start may take place, as far as is known. */
  findNextAt(now: number): number {
    if (this.#openUntil > now) return now;
    this.#dropPast(now);
    return Math.max(now, this.#tokens[0]?.from ?? this.askAt);
  }

  /** Uses a token; the moment at which it is lost, or null when there is none to use now. */
  take(now: number): number | null {
    if (this.#openUntil > now) return this.#openUntil;
    let next = this.#tokens[0];
    if (next !== undefined && next.until <= now) {
      this.#dropPast(now);
      next = this.#tokens[0];
    }
    if (next === undefined || next.from > now) return null;
    if (--next.left === 0) this.#tokens.shift();
    return next.until;
  }

  /** Uses as many of one date, and leaves some; the moment at which they are lost, or null. */
  takeMany(count: number, leaves: number, now: number): number | null {
    if (!this.canTake(now)) return null;
    if (this.#openUntil > now) return this.#openUntil;
    const next = this.#tokens[0];
    if (next === undefined || next.left <= count + leaves) return null;
    next.left -= count;
    return next.until;
  }

  /** Whether `take` would find one. */
  canTake(now: number): boolean {
    if (this.#openUntil > now) return true;
    this.#dropPast(now);
    const next = this.#tokens[0];
    return next !== undefined && next.from <= now;
  }

  /** Nothing more starts before then. */
  close(until: number, now: number): void {
    this.#closedAt = now;
    this.#tokens = [];
    this.#openUntil = 0;
    this.askAt = Math.max(this.askAt, until);
    this.#lookAt = now + CLOSED_LOOK_MS;
    this.waitReason = "closed";
  }

  /** Something comes that would need it: a closed key is asked about once more. */
  lookAgain(): void {
    if (this.waitReason === "closed") this.askAt = Math.min(this.askAt, this.#lookAt);
  }

  #dropPast(now: number): void {
    while ((this.#tokens[0]?.until ?? now + 1) <= now) this.#tokens.shift();
  }
}
