/**
 * Tenants of a pipeline share its workers by weight and handler time, however many lanes they have.
 */
import { expect } from "vitest";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import { LEASE_MS, ME, type Rig, type Rule, STEP } from "./rig.ts";

const MANY = 60;
const sizes = (chunks: number): number[] => Array.from({ length: chunks }, () => 1);

/** A batch of many chunks. They have one item each: leases take `chunkSize: 1`. */
function launch(rig: Rig, tenant: string, changes: Partial<Submission> = {}): Promise<string> {
  const settings = { strict: false, steps: [{ ...STEP, chunkSize: 1 }] };
  return rig.running(sizes(MANY), { tenant, settings, ...changes });
}

/** Leases and settles item after item. Returns how many leases each batch got. */
async function serve(
  rig: Rig,
  leases: number,
  busyMs: (batch: string) => number = () => 1,
): Promise<Map<string, number>> {
  const served = new Map<string, number>();
  for (let nth = 0; nth < leases; nth++) {
    const lease = await rig.leaseOne({ itemsMax: 1 });
    served.set(lease.batch, (served.get(lease.batch) ?? 0) + 1);
    await rig.report(lease, { succeeded: [0], busyMs: busyMs(lease.batch) });
  }
  return served;
}

export function describeFairShares(rule: Rule): void {
  rule("a batch belongs to its declared tenant, or else to its lane", async ({ rig }) => {
    const named = await rig.submit({ tenant: "acme", lane: "north" });
    const unnamed = await rig.submit({ lane: "south" });
    expect([named.tenant, unnamed.tenant]).toEqual(["acme", "south"]);
  });

  rule("tenants get work in turn, not in the order of their submissions", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    expect(await serve(rig, 20)).toEqual(
      new Map([
        [one, 10],
        [two, 10],
      ]),
    );
  });

  rule("a big lease serves several tenants", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    const leased = await rig.lease({ itemsMax: 10, chunksMax: 50 });
    const of = (id: string): number => leased.filter(({ batch }) => batch === id).length;
    expect([of(one), of(two)]).toEqual([5, 5]);
  });

  rule("other tenants get the part of a lease that one tenant cannot use", async ({ rig }) => {
    const few = await rig.running(sizes(2), { tenant: "a" });
    await launch(rig, "b");
    const leased = await rig.lease({ itemsMax: 10, chunksMax: 50 });
    expect(leased.length).toBe(10);
    expect(leased.filter(({ batch }) => batch === few).length).toBe(2);
  });

  rule("a tenant gains nothing from more lanes or batches", async ({ rig }) => {
    const whole = await launch(rig, "modest");
    await launch(rig, "greedy");
    await launch(rig, "greedy");
    await launch(rig, "greedy");
    expect((await serve(rig, 40)).get(whole)).toBe(20);
  });

  rule("a tenant gains nothing from many small batches in a row", async ({ rig }) => {
    const whole = await launch(rig, "modest");
    let small = 0;
    for (let nth = 0; nth < 20; nth++) {
      await rig.running([1], { tenant: "greedy" });
      const served = await serve(rig, 2, () => 10);
      small += 2 - (served.get(whole) ?? 0);
    }
    expect(small).toBeLessThanOrEqual(21);
    expect(small).toBeGreaterThanOrEqual(18);
  });

  rule("lanes of one tenant run side by side", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "a");
    const three = await launch(rig, "a");
    expect(await serve(rig, 9)).toEqual(
      new Map([
        [one, 3],
        [two, 3],
        [three, 3],
      ]),
    );
  });

  rule("tenants share the time of handlers, not the number of items", async ({ rig }) => {
    const slow = await launch(rig, "slow");
    await launch(rig, "quick");
    const served = await serve(rig, 40, (batch) => (batch === slow ? 30 : 10));
    expect(served.get(slow)).toBeGreaterThanOrEqual(9);
    expect(served.get(slow)).toBeLessThanOrEqual(11);
  });

  rule("a tenant of weight 3 gets three times as much", async ({ rig }) => {
    const steps = [{ ...STEP, chunkSize: 1 }];
    const heavy = await launch(rig, "heavy", { settings: { strict: false, steps, weight: 3 } });
    await launch(rig, "light");
    expect((await serve(rig, 40)).get(heavy)).toBe(30);
  });

  rule("an operator's weight replaces the declared one until it is removed", async ({ rig }) => {
    const one = await launch(rig, "a");
    await launch(rig, "b");
    const target = { kind: "weight", scope: "tenant", name: "import/a" } as const;
    await rig.store.setLimit({ ...target, value: 4 }, ME);
    expect((await serve(rig, 20)).get(one)).toBe(16);
    await rig.store.setLimit({ ...target, value: null }, ME);
    expect((await serve(rig, 20)).get(one)).toBe(10);
  });

  rule("a new tenant gets work at once and has no credit for the past", async ({ rig }) => {
    const old = await launch(rig, "old");
    await serve(rig, 30, () => 100);
    const young = await launch(rig, "young");
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(young);
    const served = await serve(rig, 20, () => 100);
    expect(served.get(old)).toBeGreaterThanOrEqual(9);
  });

  rule("a blocked tenant collects no credit while it is blocked", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    await serve(rig, 2);
    await rig.store.pause({ scope: "batch", name: two, mode: "drain", ...ME });
    await serve(rig, 20, () => 50);
    await rig.store.resume({ scope: "batch", name: two }, ME);
    const served = await serve(rig, 20, () => 50);
    expect(served.get(one)).toBeGreaterThanOrEqual(9);
  });

  rule("a lost lease stays charged to its tenant", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(one);
    rig.clock.advance(LEASE_MS);
    await rig.sweep();
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(two);
  });

  rule("a repeated report is charged once", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    const kept = await rig.leaseOne({ itemsMax: 1 });
    expect(kept.batch).toBe(one);
    for (let nth = 0; nth < 9; nth++) await rig.report(kept, { intent: "keep", busyMs: 4 });
    // b takes 1 ms each: after four items both have used the same time, and a is next.
    const served = await serve(rig, 5);
    expect(served.get(two)).toBe(4);
  });

  rule("tenants of another pipeline do not count", async ({ rig }) => {
    await launch(rig, "b", { pipeline: "other" });
    const id = await launch(rig, "a");
    expect((await serve(rig, 4)).get(id)).toBe(4);
  });
}
