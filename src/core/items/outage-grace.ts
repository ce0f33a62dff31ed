/**
 * Which leases a sweep leaves alone. One that ran out while nobody could reach the store says nothing
 * about its worker, who may be well and could not renew it: taken back, it would be held against the
 * items that ran under it, and an item can be convicted by that. So whoever comes back to the store
 * after a while leaves what ran out meanwhile in its holder's hands for the time of a lease. Holders
 * that live renew it or report by then; the others are gone.
 */

/** Leases that ran out after `from` are spared until `until`. Instants of the sweeper's own clock. */
export interface OutageGrace {
  readonly from: number;
  readonly until: number;
}

export const NO_GRACE: OutageGrace = { from: 0, until: Number.NEGATIVE_INFINITY };

/** What ran out at any time is spared. */
export function graceForAll(until: number): OutageGrace {
  return { from: Number.NEGATIVE_INFINITY, until };
}

export interface SweepFacts {
  /** When the store last took a sweep of this process. */
  readonly sweptAt: number;
  /** It has refused one since, or could not be reached. */
  readonly hasFailed: boolean;
  readonly leaseMs: number;
  readonly sweepMs: number;
}

/** What the next sweep spares. A lease that has been spared once is not spared for ever. */
export function decideOutageGrace(
  outageGrace: OutageGrace,
  life: SweepFacts,
  now: number,
): OutageGrace {
  const { sweptAt, hasFailed, leaseMs, sweepMs } = life;
  // A lease is renewed before half of it is over: less than that makes nobody lose one. With a third
  // of it gone, and the store away, a renewal that comes late may be too late.
  const awayMs = hasFailed ? leaseMs / 3 : Math.max(leaseMs / 2, 2 * sweepMs);
  if (now < outageGrace.until || now - sweptAt <= awayMs) return outageGrace;
  return { from: sweptAt, until: now + leaseMs };
}

/** How long ago a lease must have run out to be taken back. */
export function computeGraceMs({ from, until }: OutageGrace, now: number): number {
  return now < until ? now - from : 0;
}
