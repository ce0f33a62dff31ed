/**
 * Which expired leases a sweep leaves alone. A lease that expired while the store was unreachable
 * says nothing about its worker: the worker may be well and could not renew it. Taking it back
 * would charge its items with a loss, and repeated losses can convict an item. So after an outage
 * the sweeper leaves leases that expired meanwhile with their holders, for the duration of a lease.
 * Holders that live renew or report within that time; the others are gone.
 */

/**
 * Leases that expired after `from` are spared until `until`. Instants of the sweeper's own clock.
 */
export interface OutageGrace {
  readonly from: number;
  readonly until: number;
}

export const NO_GRACE: OutageGrace = { from: 0, until: Number.NEGATIVE_INFINITY };

/** Spares all expired leases. */
export function graceForAll(until: number): OutageGrace {
  return { from: Number.NEGATIVE_INFINITY, until };
}

export interface SweepFacts {
  /** When the store last completed a sweep of this process. */
  readonly sweptAt: number;
  /** A sweep has failed since then. */
  readonly hasFailed: boolean;
  readonly leaseMs: number;
  readonly sweepMs: number;
}

/** What the next sweep spares. A lease that was spared once is not spared for ever. */
export function decideOutageGrace(
  outageGrace: OutageGrace,
  life: SweepFacts,
  now: number,
): OutageGrace {
  const { sweptAt, hasFailed, leaseMs, sweepMs } = life;
  // Holders renew a lease before half of it has passed, so a shorter outage loses none. When the
  // store failed and a third of the lease has passed, a late renewal may already be too late.
  const awayMs = hasFailed ? leaseMs / 3 : Math.max(leaseMs / 2, 2 * sweepMs);
  if (now < outageGrace.until || now - sweptAt <= awayMs) return outageGrace;
  return { from: sweptAt, until: now + leaseMs };
}

/** How long ago a lease must have expired to be taken back. */
export function computeGraceMs({ from, until }: OutageGrace, now: number): number {
  return now < until ? now - from : 0;
}
