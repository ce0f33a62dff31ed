/**
 * The tokens of one bucket that this process holds. By its own monotonic clock each may be used
 * from the moment of the answer until the moment of the request plus its validity: no matter when
 * in between it was granted, no limit is exceeded.
 */
import type { WaitReason, TokenGrant } from "../../core/limits/bucket.ts";

/** Tokens of one date: a high rate has thousands at once. */
interface Tokens {
  readonly from: number;
  readonly until: number;
  left: number;
}

/**
 * How rarely a closed key is requested again; by then the worker that closed it has told the store.
 */
const CLOSED_LOOK_MS = 5_000;

export class TokenBalance {
  /** In the order of their dates. */
  #tokens: Tokens[] = [];
  /** Before this time any number may start. */
  #openUntil = 0;
  /** It is not useful to ask for more before this time. */
  askAt = 0;
  #closedAt = Number.NEGATIVE_INFINITY;
  /** A closed key may have been opened meanwhile: it may be requested again from then on. */
  #lookAt = 0;
  /** Why the store did not grant more. */
  waitReason: WaitReason | null = null;

  add(grant: TokenGrant, askedAt: number, answeredAt: number): void {
    const { atOnce, inMs, usableMs, nextInMs, open, waitReason } = grant;
    // Requested before it was closed here: the store did not know of that.
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

  /** Tokens that may be used now or later; more than enough where nothing limits it. */
  count(now: number): number {
    if (this.#openUntil > now) return Number.MAX_SAFE_INTEGER;
    this.#dropPast(now);
    return this.#tokens.reduce((sum, { left }) => sum + left, 0);
  }

  /** There are tokens, or a closing that the store may not know yet. */
  isWorthKeeping(now: number): boolean {
    this.#dropPast(now);
    return this.#tokens.length > 0 || (this.waitReason === "closed" && now < this.#lookAt);
  }

  /** When the next start may happen, as far as known. */
  findNextAt(now: number): number {
    if (this.#openUntil > now) return now;
    this.#dropPast(now);
    return Math.max(now, this.#tokens[0]?.from ?? this.askAt);
  }

  /** Uses a token; returns when it expires, or null when none is valid now. */
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

  /** Uses several tokens of one date, and leaves some; returns when they expire, or null. */
  takeMany(count: number, leaves: number, now: number): number | null {
    if (!this.canTake(now)) return null;
    if (this.#openUntil > now) return this.#openUntil;
    const next = this.#tokens[0];
    if (next === undefined || next.left <= count + leaves) return null;
    next.left -= count;
    return next.until;
  }

  /** Whether `take` would find a token. */
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

  /** A new item needs it: a closed key is requested once more. */
  lookAgain(): void {
    if (this.waitReason === "closed") this.askAt = Math.min(this.askAt, this.#lookAt);
  }

  #dropPast(now: number): void {
    while ((this.#tokens[0]?.until ?? now + 1) <= now) this.#tokens.shift();
  }
}
