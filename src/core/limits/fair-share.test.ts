import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addUse,
  allotLease,
  applyUse,
  chargeLease,
  compareTenants,
  computeCost,
  createShare,
  createUse,
  FIRST_CLOCK,
  settleUse,
  shareLease,
  smoothItemMs,
  type TenantShare,
  TENANTS_PER_LEASE_MAX,
} from "./fair-share.ts";

const share = (changes: Partial<TenantShare> = {}): TenantShare => ({
  finish: 0,
  owed: 0,
  itemMs: 1,
  weight: 1,
  ...changes,
});

const candidate = (
  changes: Partial<TenantShare> = {},
  chunkItems = 1,
): { share: TenantShare; chunkItems: number } => ({ share: share(changes), chunkItems });

describe("a lease is divided", () => {
  test("all to a tenant that is alone, whatever its tag", () => {
    expect(allotLease([candidate({ finish: 7 }, 10)], 35, 100, 3)).toEqual({
      items: [35],
      virtual: 7,
    });
  });

  test("in equal parts between tenants with equal tags", () => {
    const two = [candidate({}, 10), candidate({}, 10)];
    expect(allotLease(two, 40, 100, 0).items).toEqual([20, 20]);
  });

  test("by weight: 1 to 3", () => {
    const two = [candidate(), candidate({ weight: 3 })];
    expect(allotLease(two, 40, 100, 0).items).toEqual([10, 30]);
  });

  test("by time: a tenant whose items take four times as long gets a quarter of them", () => {
    const two = [candidate(), candidate({ itemMs: 4 })];
    expect(allotLease(two, 50, 100, 0).items).toEqual([40, 10]);
  });

  test("first to the tenant that is behind, until it has caught up", () => {
    const two = [candidate({ finish: 10 }), candidate({ finish: 30 })];
    expect(allotLease(two, 10, 100, 0).items).toEqual([10, 0]);
    expect(allotLease(two, 40, 100, 0).items).toEqual([30, 10]);
  });

  test("to a newcomer at once, from the present time on", () => {
    const two = [candidate({ finish: 0 }), candidate({ finish: 120 })];
    expect(allotLease(two, 40, 100, 100)).toEqual({ items: [30, 10], virtual: 129 });
  });

  test("within the number of chunks", () => {
    const two = [candidate({}, 10), candidate({}, 10)];
    expect(allotLease(two, 1_000, 3, 0).items).toEqual([20, 10]);
  });

  test("the part that a tenant cannot use is divided again", () => {
    const poor = { ...candidate(), has: 3 };
    const rich = { ...candidate(), has: 100 };
    const virtual = shareLease([poor, rich], { itemsMax: 20, chunksMax: 100 }, 0, (one, wanted) => {
      const items = Math.min(one.has, wanted);
      one.has -= items;
      return { items, chunks: items, pending: items };
    });
    expect([poor.has, rich.has]).toEqual([0, 83]);
    expect([poor.share.finish, rich.share.finish]).toEqual([3, 17]);
    expect(virtual).toBe(10);
  });

  test("virtual time does not pass a tenant that got less than its part", () => {
    // a's chunks have two items: of a lease of three it takes four, and b gets none.
    const a = { ...candidate({}, 2), takes: 2 };
    const b = { ...candidate({ finish: 1 }), takes: 1 };
    const virtual = shareLease([a, b], { itemsMax: 4, chunksMax: 9 }, 0, (one, wanted) => {
      const chunks = Math.ceil((wanted + 1) / one.takes);
      return { items: chunks * one.takes, chunks, pending: chunks * one.takes };
    });
    expect(b.share.finish).toBe(1);
    expect(virtual).toBeLessThanOrEqual(b.share.finish);
  });

  test("virtual time does not pass tenants that were left out of a full list", () => {
    const many = Array.from({ length: TENANTS_PER_LEASE_MAX }, () => candidate({ finish: 5 }));
    const virtual = shareLease(many, { itemsMax: 1_000, chunksMax: 1_000 }, 2, (_one, wanted) => ({
      items: wanted,
      chunks: wanted,
      pending: wanted,
    }));
    expect(virtual).toBe(5);
  });

  test("a request for 0 items gets one chunk", () => {
    const only = candidate({}, 5);
    let taken = 0;
    shareLease([only], { itemsMax: 0, chunksMax: 4 }, 0, (_one, wanted) => {
      taken += wanted;
      return { items: 5, chunks: 1, pending: 5 };
    });
    expect(taken).toBe(1);
  });
});

describe("a charge", () => {
  test("starts at the present for a tenant that was idle, without credit for the idle time", () => {
    expect(chargeLease(share({ finish: 5 }), 10, 100).finish).toBe(110);
  });

  test("keeps what an earlier lease was overcharged", () => {
    expect(chargeLease(share({ finish: 80, owed: 15 }), 10, 100)).toEqual(
      share({ finish: 95, owed: 0 }),
    );
  });

  test("stands until more time than that was used", () => {
    const account = { charge: 10, busyMs: 0 };
    const said = { ends: false, items: 10 };
    expect(settleUse(account, { ...said, busyMs: 4 }, 1)).toEqual({ charge: 10, busyMs: 4 });
    expect(settleUse(account, { ...said, busyMs: 40 }, 2)).toEqual({ charge: 20, busyMs: 40 });
  });

  test("is the time really used when the lease ends", () => {
    const account = { charge: 10, busyMs: 2 };
    expect(settleUse(account, { ends: true, items: 10, busyMs: 4 }, 2).charge).toBe(2);
    // A handler that is quicker than the clock resolution still costs something.
    expect(settleUse(account, { ends: true, items: 1_000, busyMs: 0 }, 1).charge).toBe(2);
    expect(
      settleUse({ charge: 10, busyMs: 0 }, { ends: true, items: 1_000, busyMs: 0 }, 1),
    ).toEqual({ charge: 1, busyMs: 0 });
  });

  test("of a repeated report counts once", () => {
    const said = { ends: false, items: 10, busyMs: 40 };
    const once = settleUse({ charge: 10, busyMs: 0 }, said, 1);
    expect(settleUse(once, said, 1)).toEqual(once);
  });

  test("that was too high is owed, and the estimate follows what was measured", () => {
    const use = createUse();
    addUse(use, { charge: 100, busyMs: 0 }, { charge: 20, busyMs: 20 }, 10);
    expect(applyUse(share({ finish: 150, itemMs: 10 }), use)).toEqual(
      share({ finish: 70, owed: 80, itemMs: 8 }),
    );
  });

  test("an empty measurement changes nothing", () => {
    expect(smoothItemMs(5, { ...createUse(), busyMs: 9 })).toBe(5);
    expect(smoothItemMs(5, { ...createUse(), tried: 9 })).toBe(5);
  });
});

/** A pipeline whose tenants always have work, served by leases of random sizes. */
interface Backlogged {
  readonly tenant: string;
  readonly trueMs: number;
  share: TenantShare;
  readonly chunkItems: number;
  servedMs: number;
}

const LEASE_ITEMS_MAX = 50;
const CHUNK_ITEMS_MAX = 5;

function serve(tenants: Backlogged[], leases: readonly number[], noise: () => number): void {
  let virtual = 0;
  for (const itemsMax of leases) {
    const open: { readonly one: Backlogged; readonly charge: number; readonly items: number }[] =
      [];
    const ordered = tenants.toSorted(compareTenants);
    virtual = shareLease(ordered, { itemsMax, chunksMax: 1_000 }, virtual, (one, wanted) => {
      const chunks = Math.ceil(wanted / one.chunkItems);
      const items = chunks * one.chunkItems;
      open.push({ one, items, charge: items * computeCost(one.share) });
      return { items, chunks, pending: items };
    });
    for (const { one, items, charge } of open) {
      const busyMs = items * one.trueMs * noise();
      const before = { charge, busyMs: 0 };
      const use = createUse();
      addUse(
        use,
        before,
        settleUse(before, { busyMs, ends: true, items }, one.share.weight),
        items,
      );
      one.share = applyUse(one.share, use);
      one.servedMs += busyMs;
    }
  }
}

const tenants = fc.array(
  fc.record({
    trueMs: fc.constantFrom(0.5, 1, 4, 20),
    weight: fc.constantFrom(1, 2, 3, 10),
    chunkItems: fc.integer({ min: 1, max: CHUNK_ITEMS_MAX }),
  }),
  { minLength: 2, maxLength: 8 },
);
const leases = fc.array(fc.integer({ min: 1, max: LEASE_ITEMS_MAX }), {
  minLength: 300,
  maxLength: 300,
});

interface Drawn {
  readonly trueMs: number;
  readonly weight: number;
  readonly chunkItems: number;
}

const makeTenants = (drawn: readonly Drawn[]): Backlogged[] =>
  drawn.map(
    ({ trueMs, weight, chunkItems }, at): Backlogged => ({
      tenant: `t${at}`,
      trueMs,
      share: { ...createShare(FIRST_CLOCK, weight), itemMs: trueMs },
      chunkItems,
      servedMs: 0,
    }),
  );

describe("over a long run", () => {
  test("the service of backlogged tenants, divided by weight, differs by at most one lease", () => {
    fc.assert(
      fc.property(tenants, leases, (drawn, sizes) => {
        const all = makeTenants(drawn);
        serve(all, sizes, () => 1);
        const dearest = Math.max(...all.map(({ trueMs, share: { weight } }) => trueMs / weight));
        const slack = (LEASE_ITEMS_MAX + CHUNK_ITEMS_MAX) * dearest + 1e-6;
        const served = all.map(({ servedMs, share: { weight } }) => servedMs / weight);
        expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(slack);
      }),
      { numRuns: 200 },
    );
  });

  test("unexpected item durations cost no tenant its share", () => {
    // Half of the items take almost no time, the others twice the mean.
    let turn = 0;
    const noise = (): number => (turn++ % 2 === 0 ? 0.01 : 1.99);
    const all = makeTenants([
      { trueMs: 10, weight: 1, chunkItems: 1 },
      { trueMs: 10, weight: 1, chunkItems: 1 },
      { trueMs: 10, weight: 2, chunkItems: 1 },
    ]);
    serve(
      all,
      Array.from({ length: 2_000 }, () => 8),
      noise,
    );
    const served = all.map(({ servedMs, share: { weight } }) => servedMs / weight);
    expect(Math.max(...served) / Math.min(...served)).toBeLessThan(1.02);
  });
});
