/**
 * How many requests a portal accepts: `burst` at once, and `perSecond` more each second. Written
 * without the engine's own bucket on purpose, because it checks the engine's limit.
 */

export interface PortalRate {
  readonly perSecond: number;
  readonly burst: number;
}

export class RequestBucket {
  readonly #rate: PortalRate;
  #tokens: number;
  #filledAtMs: number;

  constructor(rate: PortalRate, nowMs: number) {
    if (!(rate.perSecond > 0) || !(rate.burst >= 1)) {
      throw new RangeError(
        `a portal takes more than 0 requests a second and 1 at once, not ${rate.perSecond} and ${rate.burst}`,
      );
    }
    this.#rate = rate;
    this.#tokens = rate.burst;
    this.#filledAtMs = nowMs;
  }

  /** Whether there was a token left for this request. */
  takeToken(nowMs: number): boolean {
    const { perSecond, burst } = this.#rate;
    const refilled = ((nowMs - this.#filledAtMs) / 1_000) * perSecond;
    this.#tokens = Math.min(burst, this.#tokens + refilled);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
