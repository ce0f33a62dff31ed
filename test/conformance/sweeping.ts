/** Sweeping: the sweep acts on what has expired and does not touch the rest. */
import { expect } from "vitest";
import { FIRST_DRIVE, LEASE_MS, manifests, type Rule, SEAL_WITHIN_MS } from "./rig.ts";

const NOTHING = { lostLeases: 0, tended: 0, ended: [] };

export function describeSweeping(rule: Rule): void {
  rule("a sweep that finds nothing changes nothing", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    await rig.leaseOne();
    const before = await rig.observe(id);
    expect(await rig.sweep()).toEqual(NOTHING);
    expect(await rig.observe(id)).toEqual(before);
  });

  rule("a lease is lost exactly when it expires, not a millisecond before", async ({ rig }) => {
    await rig.running([1]);
    await rig.leaseOne();
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.sweep()).toEqual(NOTHING);
    rig.clock.advance(1);
    expect(await rig.sweep()).toEqual({ lostLeases: 1, tended: 0, ended: [] });
    expect(await rig.sweep()).toEqual(NOTHING);
  });

  rule("an expired chunk can be leased only after the sweep", async ({ rig }) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    rig.clock.advance(LEASE_MS);
    expect(await rig.lease()).toEqual([]);
    await rig.sweep();
    expect(await rig.leaseOne()).toMatchObject({ chunk: 0, fence: lease.fence + 1 });
  });

  rule(
    "leases are measured by the monotonic clock: a jump of the wall clock changes nothing",
    async ({ rig }) => {
      await rig.running([1]);
      await rig.leaseOne();
      rig.clock.jumpWall(86_400_000);
      expect(await rig.sweep()).toEqual(NOTHING);
      rig.clock.jumpWall(-2 * 86_400_000);
      rig.clock.advance(LEASE_MS);
      expect((await rig.sweep()).lostLeases).toBe(1);
    },
  );

  rule(
    "a lease that expired within the outage grace stays with its holder, who may renew it",
    async ({ rig }) => {
      await rig.running([1, 1]);
      const [renewed, silent] = [await rig.leaseOne(), await rig.leaseOne()];
      rig.clock.advance(LEASE_MS + 500);
      expect(await rig.sweep({ graceMs: 501 })).toEqual(NOTHING);
      expect(await rig.sweep({ graceMs: Number.POSITIVE_INFINITY })).toEqual(NOTHING);
      expect(await rig.renew([renewed], LEASE_MS)).toEqual([]);
      expect(await rig.sweep({ graceMs: 500 })).toEqual({ ...NOTHING, lostLeases: 1 });
      expect(await rig.settle(silent)).toBe("lost");
      expect(await rig.settle(renewed)).toBe("settled");
    },
  );

  rule(
    "a run within the outage grace can be reported on, and no item becomes a suspect",
    async ({ rig }) => {
      const id = await rig.running([2]);
      await rig.leaseOne();
      await rig.lose();
      const guarded = await rig.leaseOne();
      await rig.report(guarded, { starting: [0, 1], intent: "keep" });
      rig.clock.advance(LEASE_MS + 500);
      await rig.sweep({ graceMs: 10_000 });
      expect(await rig.report(guarded, { succeeded: [0] })).toBe("yielded");
      expect((await rig.leaseOne()).histories.filter(({ deaths }) => deaths > 0)).toEqual([]);
      expect(await rig.letters(id)).toEqual([]);
    },
  );

  rule("a renewed lease lasts from the moment of its renewal", async ({ rig }) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.renew([lease], LEASE_MS)).toEqual([]);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.sweep()).toEqual(NOTHING);
    rig.clock.advance(1);
    expect((await rig.sweep()).lostLeases).toBe(1);
  });

  rule("an expired lease that is not swept yet can still be renewed", async ({ rig }) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    rig.clock.advance(LEASE_MS * 2);
    expect(await rig.renew([lease], LEASE_MS)).toEqual([]);
    expect(await rig.sweep()).toEqual(NOTHING);
  });

  rule("a renewal returns the lost leases and extends the others", async ({ rig }) => {
    await rig.running([1, 1, 1, 1]);
    const swept = await rig.leaseOne({ leaseMs: 10 });
    await rig.lose(10);
    const [settled, held] = (await rig.lease({ chunksMax: 3 })).slice(1);
    await rig.settle(settled!);
    const forged = { ...held!, fence: held!.fence + 1 };
    const unknown = { ...held!, batch: "unknown" };
    const lost = await rig.renew([swept, held!, settled!, forged, unknown], LEASE_MS * 3);
    expect(lost).toEqual([swept, settled, forged, unknown]);
    rig.clock.advance(LEASE_MS * 2);
    await rig.sweep();
    expect(await rig.settle(held!)).toBe("settled");
  });

  rule("a holder that lost its chunk cannot renew its successor's lease", async ({ rig }) => {
    await rig.running([1]);
    const old = await rig.leaseOne();
    await rig.lose();
    await rig.leaseOne();
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.renew([old], LEASE_MS)).toEqual([old]);
    rig.clock.advance(1);
    expect((await rig.sweep()).lostLeases).toBe(1);
  });

  rule("only expired leases are swept", async ({ rig }) => {
    await rig.running([1, 1, 1]);
    await rig.leaseOne({ leaseMs: 100 });
    const living = await rig.leaseOne({ leaseMs: 200 });
    await rig.leaseOne({ leaseMs: 100 });
    rig.clock.advance(150);
    expect((await rig.sweep()).lostLeases).toBe(2);
    expect(await rig.settle(living)).toBe("settled");
  });

  rule("items in back-off stay in back-off when their chunk's lease is lost", async ({ rig }) => {
    await rig.running([2]);
    const lease = await rig.leaseOne({ leaseMs: 100 });
    await rig.report(lease, { retryInMs: { 0: 5_000 }, intent: "keep" });
    await rig.lose(100);
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 1, deaths: 0, dueInMs: 4_900, ...FIRST_DRIVE },
    ]);
  });

  rule(
    "a lost lease does not make a chunk due earlier when all its items are in back-off",
    async ({ rig }) => {
      await rig.running([2]);
      const lease = await rig.leaseOne({ leaseMs: 100 });
      await rig.report(lease, { retryInMs: { 0: 5_000, 1: 7_000 }, intent: "keep" });
      await rig.lose(100);
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 4_900 });
      rig.clock.advance(4_900);
      expect(await rig.leaseOne()).toMatchObject({ guarded: true });
    },
  );

  rule("leases are swept in the order of their expiry", async ({ rig }) => {
    const first = await rig.running([1]);
    const second = await rig.running([1]);
    await rig.lease({ batch: first, leaseMs: 20 });
    await rig.lease({ batch: second, leaseMs: 10 });
    for (const id of [first, second]) await rig.cancel(id, "drain");
    rig.clock.advance(20);
    expect((await rig.sweep()).ended).toEqual([second, first]);
  });

  rule("repeated sweeps find any number of leases that are lost at once", async ({ rig }) => {
    const chunks = 2_500;
    await rig.running(Array.from({ length: chunks }, () => 1));
    expect(await rig.lease({ chunksMax: chunks, itemsMax: chunks })).toHaveLength(chunks);
    rig.clock.advance(LEASE_MS);
    let found = 0;
    for (let sweeps = 0; sweeps < 10; sweeps++) found += (await rig.sweep()).lostLeases;
    expect(found).toBe(chunks);
    expect(await rig.lease({ chunksMax: chunks, itemsMax: chunks })).toHaveLength(chunks);
  });

  rule("an open batch whose producer died expires at its seal deadline", async ({ rig }) => {
    const id = await rig.running([2, 2, 2], { open: true });
    const lease = await rig.leaseOne({ leaseMs: SEAL_WITHIN_MS * 2 });
    await rig.report(lease, { succeeded: [0], intent: "keep" });
    rig.clock.advance(SEAL_WITHIN_MS - 1);
    expect(await rig.sweep()).toEqual(NOTHING);
    rig.clock.advance(1);
    expect(await rig.sweep()).toEqual({ lostLeases: 0, tended: 0, ended: [id] });
    expect(await rig.get(id)).toMatchObject({
      state: "expired",
      sealed: false,
      reason: { code: "SEAL_DEADLINE" },
      counts: { planned: 6, succeeded: 1, cancelled: 5, pending: 0 },
      endedAt: rig.clock.wallMs(),
    });
    expect(await rig.settle(lease)).toBe("lost");
    expect(await rig.lease()).toEqual([]);
    expect(await rig.sweep()).toEqual(NOTHING);
  });

  rule("an open batch expires also before and during slicing", async ({ rig }) => {
    const submitted = await rig.submit({ input: null });
    const slicing = await rig.slicing({ input: null });
    await rig.plan(slicing, manifests(2));
    rig.clock.advance(SEAL_WITHIN_MS);
    expect((await rig.sweep()).ended.toSorted()).toEqual([submitted.id, slicing].toSorted());
    expect(await rig.get(slicing)).toMatchObject({ state: "expired", counts: { cancelled: 2 } });
  });

  rule(
    "a batch with a readable input does not expire and waits for its next conductor",
    async ({ rig }) => {
      const submitted = await rig.submit();
      const slicing = await rig.slicing();
      const running = await rig.running([1]);
      rig.clock.advance(SEAL_WITHIN_MS * 100);
      await rig.sweep();
      const states = [submitted.id, slicing, running].map(async (id) => (await rig.get(id)).state);
      expect(await Promise.all(states)).toEqual(["submitted", "slicing", "running"]);
    },
  );

  rule("a sealed batch does not expire at its seal deadline", async ({ rig }) => {
    const handed = await rig.running([1], { input: null });
    const open = await rig.running([1], { open: true });
    await rig.store.seal(open);
    rig.clock.advance(SEAL_WITHIN_MS * 2);
    expect((await rig.sweep()).ended).toEqual([]);
    expect([(await rig.get(handed)).state, (await rig.get(open)).state]).toEqual([
      "running",
      "running",
    ]);
  });
}
