/** Tenants of a pipeline share its workers: by weight and handler time, whoever has how many lanes. */
import { expect } from "vitest";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import { LEASE_MS, ME, type Rig, type Rule, STEP } from "./rig.ts";

const MANY = 60;
const sizes = (chunks: number): number[] => Array.from({ length: chunks }, () => 1);

/** A batch of many chunks of one item, whose items take `chunkSize: 1`. */
function launch(rig: Rig, tenant: string, changes: Partial<Submission> = {}): Promise<string> {
  const settings = { strict: false, steps: [{ ...STEP, chunkSize: 1 }] };
  return rig.running(sizes(MANY), { tenant, settings, ...changes });
}

/** Leases and settles item after item, and answers how often each batch was served. */
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
  rule("a batch belongs to the tenant that it names, or to its lane", async ({ rig }) => {
    const named = await rig.submit({ tenant: "acme", lane: "north" });
    const unnamed = await rig.submit({ lane: "south" });
    expect([named.tenant, unnamed.tenant]).toEqual(["acme", "south"]);
  });

  rule("tenants are served in turn, not in the order of their submissions", async ({ rig }) => {
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

  rule("what a tenant cannot use of a lease goes to the others", async ({ rig }) => {
    const few = await rig.running(sizes(2), { tenant: "a" });
    await launch(rig, "b");
    const leased = await rig.lease({ itemsMax: 10, chunksMax: 50 });
    expect(leased.length).toBe(10);
    expect(leased.filter(({ batch }) => batch === few).length).toBe(2);
  });

  rule("a tenant gains nothing by more lanes and batches", async ({ rig }) => {
    const whole = await launch(rig, "modest");
    await launch(rig, "greedy");
    await launch(rig, "greedy");
    await launch(rig, "greedy");
    expect((await serve(rig, 40)).get(whole)).toBe(20);
  });

  rule("a tenant gains nothing by one small batch after the other", async ({ rig }) => {
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

  rule("lanes of one tenant go side by side", async ({ rig }) => {
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

  rule("the time of handlers is shared, not the number of items", async ({ rig }) => {
    const slow = await launch(rig, "slow");
    await launch(rig, "quick");
    const served = await serve(rig, 40, (batch) => (batch === slow ? 30 : 10));
    expect(served.get(slow)).toBeGreaterThanOrEqual(9);
    expect(served.get(slow)).toBeLessThanOrEqual(11);
  });

  rule("a weight of 3 gets three times as much", async ({ rig }) => {
    const steps = [{ ...STEP, chunkSize: 1 }];
    const heavy = await launch(rig, "heavy", { settings: { strict: false, steps, weight: 3 } });
    await launch(rig, "light");
    expect((await serve(rig, 40)).get(heavy)).toBe(30);
  });

  rule(
    "an operator's weight is above the declared one, until it is taken away",
    async ({ rig }) => {
      const one = await launch(rig, "a");
      await launch(rig, "b");
      const target = { kind: "weight", scope: "tenant", name: "import/a" } as const;
      await rig.store.setLimit({ ...target, value: 4 }, ME);
      expect((await serve(rig, 20)).get(one)).toBe(16);
      await rig.store.setLimit({ ...target, value: null }, ME);
      expect((await serve(rig, 20)).get(one)).toBe(10);
    },
  );

  rule("a newcomer is served at once, and has no credit for the time before", async ({ rig }) => {
    const old = await launch(rig, "old");
    await serve(rig, 30, () => 100);
    const young = await launch(rig, "young");
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(young);
    const served = await serve(rig, 20, () => 100);
    expect(served.get(old)).toBeGreaterThanOrEqual(9);
  });

  rule("a tenant that was blocked comes back without hoarded credit", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    await serve(rig, 2);
    await rig.store.pause({ scope: "batch", name: two, mode: "drain", ...ME });
    await serve(rig, 20, () => 50);
    await rig.store.resume({ scope: "batch", name: two }, ME);
    const served = await serve(rig, 20, () => 50);
    expect(served.get(one)).toBeGreaterThanOrEqual(9);
  });

  rule("a lost lease keeps its charge", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(one);
    rig.clock.advance(LEASE_MS);
    await rig.sweep();
    expect((await rig.leaseOne({ itemsMax: 1 })).batch).toBe(two);
  });

  rule("a report that comes twice is charged once", async ({ rig }) => {
    const one = await launch(rig, "a");
    const two = await launch(rig, "b");
    const kept = await rig.leaseOne({ itemsMax: 1 });
    expect(kept.batch).toBe(one);
    for (let nth = 0; nth < 9; nth++) await rig.report(kept, { intent: "keep", busyMs: 4 });
    // b takes 1 ms each: after four of them both are level, and a is next.
    const served = await serve(rig, 5);
    expect(served.get(two)).toBe(4);
  });

  rule("tenants of another pipeline do not matter", async ({ rig }) => {
    await launch(rig, "b", { pipeline: "other" });
    const id = await launch(rig, "a");
    expect((await serve(rig, 4)).get(id)).toBe(4);
  });
}
