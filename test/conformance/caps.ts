/** Caps: how many handlers run at once over all workers. Permits last as long as leases. */
import { expect } from "vitest";
import type { Caps } from "../../src/core/limits/caps.ts";
import { explainBatch } from "../../src/core/batch/why.ts";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import type {
  LeaseRequest,
  Permit,
  RenewResult,
  WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { LEASE_MS, ME, type Rig, type Rule, STEP, SWEEP_POLICY } from "./rig.ts";
import { NO_PERMITS } from "../support/permits.ts";

const capped = (caps: Caps, changes: Partial<Submission> = {}): Partial<Submission> => ({
  settings: { strict: false, steps: [STEP], caps },
  ...changes,
});

/** Two workers side by side. */
const ONE = 1;
const TWO = 2;

const look = (rig: Rig, worker: number, changes: Partial<LeaseRequest> = {}): Promise<WorkResult> =>
  rig.look({ worker, slots: 4, chunksMax: 1, ...changes });

const slotsOf = ({ permits }: Pick<WorkResult | RenewResult, "permits">): Permit[] =>
  (permits?.held ?? []).map(({ scope, slots }) => ({ scope, slots }));

async function explain(rig: Rig, id: string): Promise<ReturnType<typeof explainBatch>> {
  await rig.store.beat(ONE, [{ pipeline: "import", version: "1" }], 10 ** 9);
  const waiting = await rig.store.readWaiting(id, 9);
  return explainBatch(waiting!.batch);
}

const cap = (rig: Rig, scope: "batch" | "lane" | "pipeline", name: string, value: number | null) =>
  rig.store.setLimit({ kind: "cap", scope, name, value }, ME);

export function describeCaps(rule: Rule): void {
  rule("a batch without a cap needs no permits", async ({ rig }) => {
    await rig.running([1]);
    expect(await look(rig, ONE)).toMatchObject({ leased: [{}], permits: NO_PERMITS });
  });

  rule("a worker gets as many slots as it asks for, or as many as are free", async ({ rig }) => {
    const id = await rig.running([1, 1, 1], capped({ batch: 6 }));
    const scope = `batch/${id}`;
    expect(slotsOf(await look(rig, ONE))).toEqual([{ scope, slots: 4 }]);
    expect(slotsOf(await look(rig, TWO))).toEqual([{ scope, slots: 2 }]);
    expect(await rig.store.listCapUse()).toEqual([{ scope, slots: 6 }]);
  });

  rule(
    "a lease passes over a batch whose cap is reached and takes other batches",
    async ({ rig }) => {
      const full = await rig.running([1, 1], capped({ batch: 4 }));
      const free = await rig.running([1]);
      expect((await look(rig, ONE, { batch: full })).leased).toHaveLength(1);
      expect((await look(rig, TWO)).leased).toMatchObject([{ batch: free }]);
      expect(await look(rig, TWO)).toMatchObject({
        leased: [],
        nextDueInMs: null,
        permits: { held: [] },
      });
      // A worker that already has slots can lease more.
      expect((await look(rig, ONE)).leased).toMatchObject([{ batch: full }]);
    },
  );

  rule("a cap of a lane and of a pipeline counts over all their batches", async ({ rig }) => {
    const one = await rig.running([1], capped({ pipeline: 5 }));
    const two = await rig.running([1], capped({ pipeline: 5, lane: 2 }, { lane: "north" }));
    await look(rig, ONE, { batch: one });
    expect(slotsOf(await look(rig, TWO, { batch: two }))).toEqual([
      { scope: "lane/north", slots: 2 },
      { scope: "pipeline/import", slots: 1 },
    ]);
  });

  rule(
    "slots are free again after the worker settles its last lease in the scope",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1], capped({ batch: 4 }));
      const { leased } = await look(rig, ONE);
      expect((await look(rig, TWO)).leased).toEqual([]);
      await rig.settle(leased[0]!);
      const waits = { batch: "none" };
      expect(slotsOf(await look(rig, ONE, waits))).toEqual([]);
      expect(slotsOf(await look(rig, TWO))).toEqual([{ scope: `batch/${id}`, slots: 4 }]);
    },
  );

  rule("a worker's report lowers the number of its slots at once", async ({ rig }) => {
    const id = await rig.running([1, 1, 1], capped({ batch: 4 }));
    const scope = `batch/${id}`;
    await look(rig, ONE);
    const kept = await look(rig, ONE, { batch: "none", keeps: [{ scope, slots: 1 }] });
    expect(slotsOf(kept)).toEqual([{ scope, slots: 1 }]);
    expect(slotsOf(await look(rig, TWO))).toEqual([{ scope, slots: 3 }]);
    expect(slotsOf(await look(rig, ONE, { batch: "none" }))).toEqual([{ scope, slots: 1 }]);
  });

  rule("a worker without a lease keeps its slots until it reports fewer", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 4 }));
    const keeps = [{ scope: `batch/${id}`, slots: 4 }];
    const { leased } = await look(rig, ONE);
    await rig.settle(leased[0]!);
    expect(slotsOf(await look(rig, ONE, { batch: "none", keeps }))).toEqual(keeps);
    expect((await look(rig, TWO)).leased).toEqual([]);
    const none = [{ scope: `batch/${id}`, slots: 0 }];
    expect(slotsOf(await look(rig, ONE, { batch: "none", keeps: none }))).toEqual([]);
    expect((await look(rig, TWO)).leased).toHaveLength(1);
  });

  rule("a permit expires with its lease and is renewed with it", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 4 }));
    const scope = `batch/${id}`;
    const { leased } = await look(rig, ONE);
    rig.clock.advance(LEASE_MS - 1);
    expect(await rig.store.renew(ONE, leased, LEASE_MS)).toMatchObject({
      lost: [],
      permits: { held: [{ scope, slots: 4, forMs: LEASE_MS }] },
    });
    rig.clock.advance(LEASE_MS - 1);
    await rig.sweep();
    expect((await look(rig, TWO)).leased).toEqual([]);
    rig.clock.advance(1);
    expect(slotsOf(await look(rig, TWO))).toEqual([{ scope, slots: 4 }]);
    await rig.sweep();
    expect(await rig.store.listCapUse()).toEqual([{ scope, slots: 4 }]);
    expect(slotsOf(await rig.store.renew(ONE, leased, LEASE_MS))).toEqual([]);
  });

  rule(
    "each change of a worker's permits raises their number, and nothing else does",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1], capped({ batch: 4 }));
      const scope = `batch/${id}`;
      const idle = (changes: Partial<LeaseRequest> = {}): Promise<WorkResult> =>
        look(rig, ONE, { batch: "none", keeps: [{ scope, slots: 4 }], ...changes });
      expect((await idle()).permits?.seq).toBe(1);
      const { leased, permits } = await look(rig, ONE);
      expect(permits?.seq).toBe(2);
      expect((await idle()).permits?.seq).toBe(2);
      rig.clock.advance(5);
      expect((await rig.store.renew(ONE, leased, LEASE_MS)).permits.seq).toBe(3);
      expect((await rig.store.renew(ONE, [], LEASE_MS)).permits.seq).toBe(3);
      expect((await idle({ keeps: [{ scope, slots: 2 }] })).permits?.seq).toBe(4);
      await rig.settle(leased[0]!);
      expect((await idle({ keeps: [] })).permits).toEqual({ seq: 5, held: [] });
      expect((await idle({ keeps: [] })).permits?.seq).toBe(5);
      const unregistered = 99;
      expect((await look(rig, unregistered)).permits?.seq).toBe(0);
    },
  );

  rule(
    "an answer has all permits of the worker, also those of other pipelines",
    async ({ rig }) => {
      const one = await rig.running([1], capped({ batch: 2 }));
      const two = await rig.running([1], capped({ batch: 3 }, { pipeline: "export" }));
      await look(rig, ONE);
      rig.clock.advance(10);
      const other = { scope: `batch/${two}`, slots: 3, pipeline: "export", forMs: LEASE_MS };
      const { permits } = await look(rig, ONE, { pipeline: "export" });
      const left = { scope: `batch/${one}`, slots: 2, pipeline: "import", forMs: LEASE_MS - 10 };
      expect(permits?.held).toEqual([left, other]);
      rig.clock.advance(LEASE_MS - 10);
      const later = await look(rig, ONE, { batch: "none" });
      expect(later.permits?.held).toContainEqual({ ...left, slots: 0, forMs: 0 });
    },
  );

  rule(
    "of concurrent answers the one with the highest number is what the store holds",
    async ({ rig }) => {
      const limits = { batch: 4, pipeline: 9 };
      const ids = [
        await rig.running([1, 1, 1, 1], capped(limits)),
        await rig.running([1, 1, 1, 1], capped(limits)),
      ] as const;
      const { leased } = await look(rig, ONE, { batch: ids[0] });
      for (let round = 0; round < 6; round++) {
        const keeps = [{ scope: "pipeline/import", slots: round % 3 }];
        const own = await Promise.all([
          look(rig, ONE, { batch: ids[round % 2]!, keeps }),
          rig.store.renew(ONE, leased, LEASE_MS + round),
          look(rig, ONE, { batch: ids[(round + 1) % 2]! }),
        ]);
        const newest = own.reduce((a, b) => (b.permits!.seq > a.permits!.seq ? b : a));
        const now = await look(rig, ONE, { batch: "none", keeps: slotsOf(newest) });
        expect(now.permits?.seq).toBe(newest.permits?.seq);
        expect(slotsOf(now)).toEqual(slotsOf(newest));
      }
    },
  );

  rule("an operator's cap replaces the declared one, even if it is higher", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 1 }));
    await cap(rig, "batch", id, 3);
    expect(slotsOf(await look(rig, ONE))).toEqual([{ scope: `batch/${id}`, slots: 3 }]);
    await cap(rig, "batch", id, null);
    const { leased } = await look(rig, ONE);
    expect(slotsOf(await rig.store.renew(ONE, leased, LEASE_MS))).toEqual([
      { scope: `batch/${id}`, slots: 1 },
    ]);
  });

  rule("a lowered cap holds after each worker has renewed", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 8 }));
    const scope = `batch/${id}`;
    const one = await look(rig, ONE);
    const two = await look(rig, TWO);
    await cap(rig, "batch", id, 5);
    expect(slotsOf(await rig.store.renew(ONE, one.leased, LEASE_MS))).toEqual([
      { scope, slots: 1 },
    ]);
    expect(slotsOf(await rig.store.renew(TWO, two.leased, LEASE_MS))).toEqual([
      { scope, slots: 4 },
    ]);
  });

  rule(
    "a renewal tells the worker about a cap that is set while its batch runs",
    async ({ rig }) => {
      await rig.running([1, 1]);
      const one = await look(rig, ONE);
      const two = await look(rig, TWO);
      await cap(rig, "pipeline", "import", 3);
      const scope = "pipeline/import";
      expect(slotsOf(await rig.store.renew(ONE, one.leased, LEASE_MS))).toEqual([
        { scope, slots: 3 },
      ]);
      expect(slotsOf(await rig.store.renew(TWO, two.leased, LEASE_MS))).toEqual([
        { scope, slots: 0 },
      ]);
      // The first worker reports fewer slots, so the second one gets more.
      await look(rig, ONE, { keeps: [{ scope, slots: 1 }] });
      expect(slotsOf(await rig.store.renew(TWO, two.leased, LEASE_MS))).toEqual([
        { scope, slots: 2 },
      ]);
      await cap(rig, "pipeline", "import", null);
      expect(slotsOf(await rig.store.renew(TWO, two.leased, LEASE_MS))).toEqual([]);
    },
  );

  rule("a batch that waits for a slot shows the cap and its use", async ({ rig }) => {
    const one = await rig.running([1], capped({ lane: 2 }, { lane: "north" }));
    expect((await explain(rig, one)).code).toBe("due");
    await cap(rig, "pipeline", "import", 4);
    const two = await rig.running([1]);
    await look(rig, ONE, { batch: two });
    expect(await explain(rig, one)).toEqual({
      code: "cap",
      message:
        "its pipeline import has a cap of 4 handler calls at once, and 4 are taken; sluice limits shows and changes it",
    });
  });

  rule("a batch whose cap is reached does not count as stalled", async ({ rig }) => {
    await rig.store.beat(ONE, [{ pipeline: "import", version: "1" }], 10 ** 9);
    await cap(rig, "pipeline", "import", 1);
    const id = await rig.running([1]);
    const keeps = [{ scope: "pipeline/import", slots: 1 }];
    // A worker holds the only slot but has no lease.
    const { leased } = await look(rig, TWO, { leaseMs: 10 ** 9, keeps });
    await rig.report(leased[0]!, {});
    for (let nth = 0; nth < 9; nth++) {
      rig.clock.advance(10 * 60_000);
      await rig.store.sweep({ ...SWEEP_POLICY, stallsMax: 0 });
    }
    expect((await rig.get(id)).counts.failed).toBe(0);
  });

  rule("a freed slot notifies the workers that wait for it", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 1 }));
    const scope = `batch/${id}`;
    await look(rig, ONE);
    let changes = 0;
    const unwatch = rig.store.watch(() => void changes++);
    await look(rig, ONE, { batch: "none", keeps: [{ scope, slots: 1 }] });
    expect(changes).toBe(0);
    await look(rig, ONE, { batch: "none", keeps: [{ scope, slots: 0 }] });
    expect(changes).toBeGreaterThan(0);
    unwatch();
  });

  rule("the end of a batch ends its permits", async ({ rig }) => {
    const id = await rig.running([1, 1], capped({ batch: 4 }));
    await look(rig, ONE);
    await rig.store.fail(id, { code: "STOP", message: "enough" });
    expect(await rig.store.listCapUse()).toEqual([]);
  });

  rule("caps are listed with who set them, and each change is recorded", async ({ rig }) => {
    const id = await rig.running([1]);
    const by = { by: "ann", why: "the portal is slow" };
    const rate = { kind: "rate", scope: "rate", name: "portal" } as const;
    expect(await rig.store.setLimit({ ...rate, value: { perSecond: 5, burst: 10 } }, by)).toBe(
      true,
    );
    expect(await rig.store.setLimit({ ...rate, value: { burst: 10, perSecond: 5 } }, by)).toBe(
      false,
    );
    await cap(rig, "batch", id, 2);
    await cap(rig, "batch", id, null);
    expect(await rig.store.listLimits()).toEqual([{ ...rate, value: { perSecond: 5, burst: 10 } }]);
    const at = rig.clock.wallMs();
    const named = { kind: "cap", scope: "batch", name: id };
    expect(await rig.store.listLimitChanges(0, 9)).toEqual([
      { seq: 1, at, ...by, ...rate, before: null, after: { perSecond: 5, burst: 10 } },
      { seq: 2, at, ...ME, ...named, before: null, after: 2 },
      { seq: 3, at, ...ME, ...named, before: 2, after: null },
    ]);
    expect(await rig.store.listLimitChanges(1, 1)).toMatchObject([{ seq: 2 }]);
  });

  rule("a cap of an unknown batch is refused", async ({ rig }) => {
    await expect(cap(rig, "batch", "unknown", 2)).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });
}
