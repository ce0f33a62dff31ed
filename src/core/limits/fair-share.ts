/**
 * Whose work is leased next, where several tenants share a pipeline: start-time fair queueing. Each
 * tenant has a tag that says up to which virtual time it has been served, and whoever is furthest
 * behind is next. Tags move by handler time over weight, so a tenant with slow items gets fewer of
 * them, and one that splits its work over more lanes or batches gains nothing: it has one tag.
 *
 * A lease counts as what it is expected to take, or as what it has really taken when that is more;
 * when it ends, as what it really took. A lost lease stays as it was counted.
 */

/** What is known of a tenant. */
export interface TenantShare {
  /** Virtual milliseconds up to which it has been served; 0 before the first time. */
  readonly finish: number;
  /** What it was charged too much since it was last served: that is not lost by waiting. */
  readonly owed: number;
  /** What one of its items is expected to take of a handler's time. */
  readonly itemMs: number;
  readonly weight: number;
}

/** What the tenants of a pipeline have in common. */
export interface ShareClock {
  /** The start tag that was served last: where a newcomer begins. */
  readonly virtual: number;
  /** What an item of anybody takes: a newcomer is taken to be like the others. */
  readonly itemMs: number;
  /** Counts the leases from batches, for their rotation within a tenant. */
  readonly turns: number;
}

/** Before anything was measured. */
const ITEM_MS_FIRST = 1;
/**
 * An item takes at least this: with handlers quicker than the clock can tell nobody's tag would
 * move, and the tenant whose name comes first would have everything.
 */
const ITEM_MS_MIN = 0.001;
/** How much of the newest measurement goes into what is expected. */
const NEWEST_PART = 0.25;
/** Tenants that one lease can serve; the others are the first ones of the next. */
export const TENANTS_PER_LEASE_MAX = 64;
export const TENANT_CHARS_MAX = 200;

export const FIRST_CLOCK: ShareClock = { virtual: 0, itemMs: ITEM_MS_FIRST, turns: 0 };

/** A tenant that was never served, or of which nothing is to be remembered. */
export function createShare({ itemMs }: ShareClock, weight: number): TenantShare {
  return { finish: 0, owed: 0, itemMs, weight };
}

/** What an item is charged. */
export function computeCost({ itemMs, weight }: TenantShare): number {
  return itemMs / weight;
}

/** Where its next lease starts: who was idle comes back at the present, without hoarded credit. */
function computeStart({ finish, owed }: TenantShare, virtual: number): number {
  return Math.max(virtual - owed, finish);
}

/** Those behind come first; who are level in the order of their names. */
export function compareTenants(
  a: { readonly share: TenantShare; readonly tenant: string },
  b: { readonly share: TenantShare; readonly tenant: string },
): number {
  return a.share.finish - b.share.finish || (a.tenant < b.tenant ? -1 : 1);
}

export function chargeLease(share: TenantShare, items: number, virtual: number): TenantShare {
  const finish = computeStart(share, virtual) + items * computeCost(share);
  return { ...share, finish, owed: 0 };
}

export interface Allotment {
  /** For each candidate, in their order. */
  readonly items: readonly number[];
  /** The start tag that was served last. */
  readonly virtual: number;
}

/** A tenant with something to lease. */
export interface LeaseCandidate {
  readonly share: TenantShare;
  /** Items that its next chunk has at most: they are leased together. */
  readonly chunkItems: number;
}

/**
 * Divides one lease, a chunk at a time, always to whoever is furthest behind. Candidates come in
 * the order of `compareTenants`, so the first of several that are level is the one to take.
 */
export function allotLease(
  candidates: readonly LeaseCandidate[],
  itemsMax: number,
  chunksMax: number,
  virtual: number,
): Allotment {
  const starts = candidates.map(({ share }) => computeStart(share, virtual));
  const items = candidates.map(() => 0);
  let latest = virtual;
  if (candidates.length === 1) return { items: [itemsMax], virtual: Math.max(latest, ...starts) };
  for (let left = itemsMax, chunks = 0; left > 0 && chunks < chunksMax; chunks++) {
    const at = starts.indexOf(Math.min(...starts));
    const candidate = candidates[at];
    const start = starts[at];
    if (candidate === undefined || start === undefined) break;
    latest = Math.max(latest, start);
    items[at] = (items[at] ?? 0) + candidate.chunkItems;
    starts[at] = start + candidate.chunkItems * computeCost(candidate.share);
    left -= candidate.chunkItems;
  }
  return { items, virtual: latest };
}

/** What was leased of a tenant. */
export interface Taken {
  /** Of the request's measure: whole chunks. */
  readonly items: number;
  readonly chunks: number;
  /** Those of them that are to run: they are what is charged. */
  readonly pending: number;
}

/** What is to be leased of a tenant next. */
export interface LeasePart<Candidate> {
  readonly candidate: Candidate;
  readonly itemsMax: number;
  readonly chunksMax: number;
}

/**
 * Divides a lease request: allots it, asks for each part what could be taken of it, and allots what
 * somebody could not use anew. `candidates` are changed to what they were charged. Answers the
 * virtual time after it. Whoever takes may have to wait for a store meanwhile: hence no callback.
 */
export function* divideLease<Candidate extends LeaseCandidate & { share: TenantShare }>(
  candidates: readonly Candidate[],
  limits: { readonly itemsMax: number; readonly chunksMax: number },
  virtual: number,
): Generator<LeasePart<Candidate>, number, Taken> {
  let latest = virtual;
  // Those who were left out of a full list come after its last one.
  const last = candidates[TENANTS_PER_LEASE_MAX - 1]?.share.finish ?? Number.POSITIVE_INFINITY;
  // One chunk is always granted, even to a request for no items.
  let items = Math.max(1, limits.itemsMax);
  let chunks = limits.chunksMax;
  let open = candidates;
  while (items > 0 && chunks > 0 && open.length > 0) {
    const allotted = allotLease(open, items, chunks, virtual);
    latest = Math.max(latest, allotted.virtual);
    const dry = new Set<Candidate>();
    for (const [at, candidate] of open.entries()) {
      const wanted = Math.min(allotted.items[at] ?? 0, items);
      if (wanted <= 0 || chunks <= 0) continue;
      const taken = yield { candidate, itemsMax: wanted, chunksMax: chunks };
      candidate.share = chargeLease(candidate.share, taken.pending, virtual);
      items -= taken.items;
      chunks -= taken.chunks;
      if (taken.items < wanted) dry.add(candidate);
    }
    open = open.filter((candidate) => !dry.has(candidate));
  }
  // Whole chunks are taken, so somebody may have got less than was allotted to him. The present must
  // not pass whoever still has work: he would lose that for good.
  const waiting = open.map(({ share }) => share.finish);
  return Math.max(virtual, Math.min(latest, last, ...waiting));
}

/** The same, where what is asked for is taken at once. */
export function shareLease<Candidate extends LeaseCandidate & { share: TenantShare }>(
  candidates: readonly Candidate[],
  limits: { readonly itemsMax: number; readonly chunksMax: number },
  virtual: number,
  take: (candidate: Candidate, itemsMax: number, chunksMax: number) => Taken,
): number {
  const parts = divideLease(candidates, limits, virtual);
  let next = parts.next();
  while (!next.done) {
    const { candidate, itemsMax, chunksMax } = next.value;
    next = parts.next(take(candidate, itemsMax, chunksMax));
  }
  return next.value;
}

/** A lease as its chunk remembers it. */
export interface LeaseAccount {
  /** What it counts as in its tenant's tag. */
  readonly charge: number;
  /** Handler milliseconds that were reported. */
  readonly busyMs: number;
}

export interface LeaseUse {
  /** All handler milliseconds under the lease, so that a report that comes twice counts once. */
  readonly busyMs: number;
  /** The lease ends with it. */
  readonly ends: boolean;
  /** How many items the chunk has. */
  readonly items: number;
}

/** What a report makes of its lease's account. */
export function settleUse(
  account: LeaseAccount,
  { busyMs, ends, items }: LeaseUse,
  weight: number,
): LeaseAccount {
  const total = Math.max(account.busyMs, busyMs);
  const used = total / weight;
  const charge = ends
    ? Math.max(used, (items * ITEM_MS_MIN) / weight)
    : Math.max(used, account.charge);
  return { charge, busyMs: total };
}

/** What the reports of one commit say of a tenant's work on a step. */
export interface ShareUse {
  /** By how much its tag moves. */
  moved: number;
  /** What of it was taken back. */
  refunded: number;
  busyMs: number;
  /** Items that were tried in that time. */
  tried: number;
}

export function createUse(): ShareUse {
  return { moved: 0, refunded: 0, busyMs: 0, tried: 0 };
}

export function addUse(
  use: ShareUse,
  before: LeaseAccount,
  after: LeaseAccount,
  tried: number,
): void {
  const moved = after.charge - before.charge;
  use.moved += moved;
  if (moved < 0) use.refunded -= moved;
  use.busyMs += after.busyMs - before.busyMs;
  use.tried += tried;
}

export function applyUse(share: TenantShare, use: ShareUse): TenantShare {
  const { finish, owed, itemMs, weight } = share;
  return {
    finish: Math.max(0, finish + use.moved),
    owed: owed + use.refunded,
    itemMs: smoothItemMs(itemMs, use),
    weight,
  };
}

/** What an item is expected to take, after a measurement; one of nothing says nothing. */
export function smoothItemMs(itemMs: number, { busyMs, tried }: ShareUse): number {
  if (tried <= 0 || busyMs <= 0) return itemMs;
  return Math.max(ITEM_MS_MIN, itemMs + (busyMs / tried - itemMs) * NEWEST_PART);
}
