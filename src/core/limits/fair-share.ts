/**
 * Which tenant's work is leased next, where several tenants share a pipeline: start-time fair
 * queueing. Each tenant has a tag: the virtual time up to which it has been served. The tenant
 * furthest behind is next. Tags advance by handler time divided by weight, so a tenant with slow
 * items gets fewer of them. A tenant that splits its work over more lanes or batches gains nothing:
 * it still has one tag.
 *
 * A lease is charged with its expected time, or with its real time when that is more; when it ends,
 * with its real time. The charge of a lost lease stays.
 */

/** What is known about a tenant. */
export interface TenantShare {
  /** Virtual milliseconds up to which it has been served; 0 before the first time. */
  readonly finish: number;
  /** What it was overcharged since it was last served; waiting does not lose it. */
  readonly owed: number;
  /** The expected handler time of one of its items. */
  readonly itemMs: number;
  readonly weight: number;
}

/** What the tenants of a pipeline have in common. */
export interface ShareClock {
  /** The start tag that was served last: newcomers start here. */
  readonly virtual: number;
  /** The average time of an item of all tenants: the first guess for a newcomer. */
  readonly itemMs: number;
  /** Counts leases, to rotate between the batches of a tenant. */
  readonly turns: number;
}

/** Before anything was measured. */
const ITEM_MS_FIRST = 1;
/**
 * An item costs at least this. Without it, with handlers quicker than the clock no tag would
 * advance, and the tenant whose name sorts first would get everything.
 */
const ITEM_MS_MIN = 0.001;
/** The weight of the newest measurement in the estimate. */
const NEWEST_PART = 0.25;
/** How many tenants one lease can serve; the next lease starts with the others. */
export const TENANTS_PER_LEASE_MAX = 64;
export const TENANT_CHARS_MAX = 200;

export const FIRST_CLOCK: ShareClock = { virtual: 0, itemMs: ITEM_MS_FIRST, turns: 0 };

/** A tenant that was never served, or whose state is not kept. */
export function createShare({ itemMs }: ShareClock, weight: number): TenantShare {
  return { finish: 0, owed: 0, itemMs, weight };
}

/** What an item is charged. */
export function computeCost({ itemMs, weight }: TenantShare): number {
  return itemMs / weight;
}

/** Where its next lease starts: an idle tenant returns at the present, without saved-up credit. */
function computeStart({ finish, owed }: TenantShare, virtual: number): number {
  return Math.max(virtual - owed, finish);
}

/** Tenants behind come first; equal ones in the order of their names. */
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
  /** The most items its next chunk has: they are leased together. */
  readonly chunkItems: number;
}

/**
 * Divides one lease, a chunk at a time, always to the tenant furthest behind. Candidates come in
 * the order of `compareTenants`, so the first of several equal ones is next.
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
  /** In the unit of the request: whole chunks. */
  readonly items: number;
  readonly chunks: number;
  /** Those that are to run: only they are charged. */
  readonly pending: number;
}

/** What is to be leased of a tenant next. */
export interface LeasePart<Candidate> {
  readonly candidate: Candidate;
  readonly itemsMax: number;
  readonly chunksMax: number;
}

/**
 * Divides a lease request: divides it between tenants, asks for each part what could be leased of
 * it, and divides the unused rest again. Updates the charges of `candidates`. Returns the virtual
 * time after it. A generator and not a callback, because the caller may have to wait for a store.
 */
export function* divideLease<Candidate extends LeaseCandidate & { share: TenantShare }>(
  candidates: readonly Candidate[],
  limits: { readonly itemsMax: number; readonly chunksMax: number },
  virtual: number,
): Generator<LeasePart<Candidate>, number, Taken> {
  let latest = virtual;
  // Tenants that were left out of a full list come after its last one.
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
  // Whole chunks are leased, so a tenant may have got less than its part. Virtual time must not
  // pass a tenant that still has work: it would lose its part for good.
  const waiting = open.map(({ share }) => share.finish);
  return Math.max(virtual, Math.min(latest, last, ...waiting));
}

/** The same, for a caller that can lease at once. */
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
  /** What is charged for it in its tenant's tag. */
  readonly charge: number;
  /** Handler milliseconds that were reported. */
  readonly busyMs: number;
}

export interface LeaseUse {
  /** All handler milliseconds under the lease, so that a repeated report counts once. */
  readonly busyMs: number;
  /** The lease ends with this report. */
  readonly ends: boolean;
  /** How many items the chunk has. */
  readonly items: number;
}

/** The lease's account after a report. */
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

/** The sum of the reports of one commit about a tenant's work on a step. */
export interface ShareUse {
  /** How far its tag advances. */
  moved: number;
  /** How much of it was refunded. */
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

/** The expected time of an item after a measurement; an empty measurement changes nothing. */
export function smoothItemMs(itemMs: number, { busyMs, tried }: ShareUse): number {
  if (tried <= 0 || busyMs <= 0) return itemMs;
  return Math.max(ITEM_MS_MIN, itemMs + (busyMs / tried - itemMs) * NEWEST_PART);
}
