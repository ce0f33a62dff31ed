/**
 * The watch: due work without progress is offered again and finally given up. A lane does not wait
 * for ever.
 */
import { expect } from "vitest";
import type { SweepPolicy } from "../../src/ports/store/worker-store.ts";
import { allOf, manifests, type Rig, type Rule, steps, wordsOf } from "./rig.ts";

const LOOK_MS = 100;
const STALL_MS = 50;
const POLICY: Partial<SweepPolicy> = {
  watchDelays: { steps: [], elseMs: LOOK_MS, stallMs: STALL_MS },
  stallsMax: 2,
  orphanMs: 1_000_000,
  staleMs: 10_000_000,
};

/** One sweep after each delay. Returns how many batches each of them changed. */
async function lookOn(rig: Rig, times: number, ms = LOOK_MS): Promise<number[]> {
  const tended: number[] = [];
  for (let look = 0; look < times; look++) {
    rig.clock.advance(ms);
    tended.push((await rig.sweep(POLICY)).tended);
  }
  return tended;
}

export function describeWatching(rule: Rule): void {
  describeStalls(rule);
  describeOrphans(rule);
}

function describeStalls(rule: Rule): void {
  rule(
    "due work that no worker leases is a stall, and is given up after the last allowed stall",
    async ({ rig }) => {
      const id = await rig.running([2, 2]);
      await rig.serve();
      expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
      expect(await rig.state(id)).toBe("running");
      rig.clock.advance(LOOK_MS);
      expect(await rig.sweep(POLICY)).toEqual({ lostLeases: 0, tended: 1, ended: [id] });
      expect(await rig.get(id)).toMatchObject({
        state: "completed_with_errors",
        counts: { failed: 4, pending: 0 },
      });
      expect(await rig.letters(id)).toMatchObject(
        [0, 1, 2, 3].map((item) => ({
          item,
          code: "STALLED",
          errorClass: "transient",
          attempts: 0,
          deaths: 0,
          drive: 1,
          failedAt: rig.clock.wallMs(),
        })),
      );
    },
  );

  rule("work that waits for a busy worker is no stall", async ({ rig }) => {
    await rig.running([1], { lane: "busy" });
    await rig.serve();
    const busy = await rig.leaseOne({ leaseMs: 10 ** 6 });
    const waiting = await rig.running([1], { lane: "waiting" });
    expect(await lookOn(rig, 10)).toEqual(Array.from({ length: 10 }, () => 0));
    await rig.settle(busy);
    expect(await lookOn(rig, 2)).toEqual([1, 1]);
    expect(await rig.state(waiting)).toBe("running");
  });

  rule("the next look comes sooner after a stall than after progress", async ({ rig }) => {
    await rig.running([1]);
    await rig.serve();
    expect(await lookOn(rig, 2)).toEqual([0, 1]);
    expect(await lookOn(rig, 1, STALL_MS - 1)).toEqual([0]);
    expect(await lookOn(rig, 1, 1)).toEqual([1]);
  });

  rule("items with an outcome keep it, and only the others are given up", async ({ rig }) => {
    const id = await rig.running([3, 2]);
    await rig.serve();
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], failed: [1], results: { 0: "0" } });
    await lookOn(rig, 4);
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 1, failed: 4 },
    });
    expect((await rig.letters(id)).map(({ item, code }) => [item, code])).toEqual([
      [1, "BAD_INPUT"],
      [2, "STALLED"],
      [3, "STALLED"],
      [4, "STALLED"],
    ]);
    expect(await rig.results(id)).toHaveLength(1);
    expect(await rig.recount(id)).toMatchObject({ recounted: { succeeded: 1, failed: 4 } });
  });

  rule("giving up raises the fences of the chunks", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve();
    const lease = await rig.leaseOne();
    await rig.report(lease, {});
    await lookOn(rig, 4);
    await rig.redrive(id);
    expect((await rig.leaseOne()).fence).toBeGreaterThan(lease.fence + 1);
    expect(await rig.settle({ ...lease, fence: lease.fence + 1 })).toBe("lost");
  });

  rule("work that was leased since the last look is no stall", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve();
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    for (let times = 0; times < 5; times++) {
      // The chunk was run and is due again at once. That is no progress, but a worker was there.
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 0 } });
      expect(await lookOn(rig, 1)).toEqual([0]);
    }
    expect(await lookOn(rig, 2)).toEqual([1, 1]);
    expect(await rig.state(id)).toBe("running");
  });

  rule("a lease that a sweep finds lost is no stall", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve();
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    await rig.leaseOne({ leaseMs: 2 * LOOK_MS + 1 });
    expect(await lookOn(rig, 2)).toEqual([0, 0]);
    rig.clock.advance(LOOK_MS);
    expect(await rig.sweep(POLICY)).toMatchObject({ lostLeases: 1, tended: 0 });
    expect(await lookOn(rig, 2)).toEqual([1, 1]);
    expect(await rig.state(id)).toBe("running");
  });

  rule("progress resets all stalls before it", async ({ rig }) => {
    const id = await rig.running([1, 1, 1]);
    await rig.serve();
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    await rig.settle(await rig.leaseOne());
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    await rig.settle(await rig.leaseOne());
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, pending: 1 });
  });

  for (const { what, make, end } of [
    {
      what: "nothing is due",
      make: async (rig: Rig, id: string) =>
        void (await rig.runAll(id, (lease) => ({
          retryInMs: Object.fromEntries(allOf(lease).map((index) => [index, 20 * LOOK_MS])),
        }))),
      end: (rig: Rig) => Promise.resolve(rig.clock.advance(10 * LOOK_MS)),
    },
    {
      what: "a worker holds a lease",
      make: async (rig: Rig) => void (await rig.lease({ leaseMs: 10 ** 6 })),
      end: (rig: Rig) => Promise.resolve(rig.clock.advance(10 ** 6)),
    },
    {
      what: "the batch is paused",
      make: async (rig: Rig, id: string) => void (await rig.pause("batch", id)),
      end: async (rig: Rig, id: string) => void (await rig.resume("batch", id)),
    },
    {
      what: "its pipeline is paused",
      make: async (rig: Rig) => void (await rig.pause("pipeline", "import")),
      end: async (rig: Rig) => void (await rig.resume("pipeline", "import")),
    },
    {
      what: "no worker has its pipeline",
      make: (rig: Rig) => rig.store.beat(rig.worker, [], 10 ** 9),
      end: (rig: Rig) => rig.serve(),
    },
  ] as const) {
    rule(`there is no stall while ${what}, and one afterwards`, async ({ rig }) => {
      const id = await rig.running([1, 1]);
      await rig.serve();
      await make(rig, id);
      expect(await lookOn(rig, 10)).toEqual(Array.from({ length: 10 }, () => 0));
      expect((await rig.get(id)).counts.pending).toBe(2);
      await end(rig, id);
      const tended = await lookOn(rig, 5);
      expect(tended.reduce((sum, one) => sum + one, 0)).toBe(3);
      expect(await rig.state(id)).toBe("completed_with_errors");
    });
  }

  rule("a resumed batch starts with no stalls", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve();
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    await rig.pause("batch", id);
    await rig.resume("batch", id);
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    expect(await rig.state(id)).toBe("running");
  });

  rule("there is no stall while a batch waits for its turn", async ({ rig }) => {
    const lane = "main";
    const holder = await rig.running([1], { lane });
    const waiting = await rig.running([1], { lane });
    await rig.serve();
    await rig.leaseOne({ leaseMs: 10 ** 6 });
    expect(await lookOn(rig, 10)).toEqual(Array.from({ length: 10 }, () => 0));
    expect((await rig.get(waiting)).counts).toMatchObject({ failed: 0, pending: 1 });
    expect(await rig.state(holder)).toBe("running");
  });

  rule("there is no stall while an open batch has nothing pending", async ({ rig }) => {
    const id = await rig.running([1], { open: true, sealWithinMs: 10 ** 9 });
    await rig.serve();
    await rig.settle(await rig.leaseOne());
    expect(await lookOn(rig, 10)).toEqual(Array.from({ length: 10 }, () => 0));
    expect(await rig.state(id)).toBe("running");
  });

  rule("two sweeps at once count one look", async ({ rig }) => {
    await rig.running([1]);
    await rig.serve();
    for (const expected of [0, 1, 1, 1]) {
      rig.clock.advance(LOOK_MS);
      const both = [await rig.sweep(POLICY), await rig.sweep(POLICY)];
      expect(both.map(({ tended }) => tended)).toEqual([expected, 0]);
    }
  });

  rule(
    "items that were given up are not redriven automatically, and the next step begins",
    async ({ rig }) => {
      const settings = steps({ maxRedrives: 3 }, { name: "two" });
      const id = await rig.running([2], { settings });
      await rig.serve();
      await lookOn(rig, 4);
      expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1, drive: 1 });
    },
  );

  rule("a failure gets its automatic pass after the rest was given up", async ({ rig }) => {
    const id = await rig.running([1, 1], { settings: steps({ maxRedrives: 1 }) });
    await rig.serve();
    await rig.report(await rig.leaseOne(), { failed: [0], errorClass: "transient" });
    await lookOn(rig, 4);
    expect(await rig.get(id)).toMatchObject({
      state: "running",
      drive: 2,
      counts: { failed: 1, pending: 1 },
    });
    const leased = await rig.lease({ chunksMax: 9 });
    expect(leased).toMatchObject([{ chunk: 0, final: true }]);
    expect(wordsOf(leased[0]!)).toEqual(["pending"]);
  });

  rule("all chunks are given up, however many are left", async ({ rig }) => {
    const chunks = 2_100;
    const id = await rig.running(Array.from({ length: chunks }, () => 1));
    await rig.serve();
    await lookOn(rig, 3);
    // A sweep is bounded: the next ones continue at once and do not wait for more looks.
    rig.clock.advance(LOOK_MS);
    for (let sweeps = 0; sweeps < 3; sweeps++) await rig.sweep(POLICY);
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { failed: chunks, pending: 0 },
    });
  });

  rule("after giving up, the next look comes after the usual delay", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.serve();
    expect(await lookOn(rig, 4)).toEqual([0, 1, 1, 1]);
    expect((await rig.get(id)).counts).toMatchObject({ failed: 1, pending: 0 });
    await rig.plan(id, manifests(1));
    // The first look counts as progress and comes no sooner than any other.
    expect(await lookOn(rig, 1, 1)).toEqual([0]);
    expect(await lookOn(rig, 2, LOOK_MS - 1)).toEqual([0, 0]);
    expect(await lookOn(rig, 1)).toEqual([1]);
  });

  rule(
    "a sweep that gives a batch its turn does not look at it; the next one does",
    async ({ rig }) => {
      const first = await rig.running([1]);
      const { lane } = await rig.get(first);
      const second = await rig.running([1], { lane });
      await rig.serve();
      await lookOn(rig, 4);
      expect(await rig.state(first)).toBe("completed_with_errors");
      expect(await rig.state(second)).toBe("running");
      expect(await lookOn(rig, 2)).toEqual([0, 1]);
    },
  );

  rule("an item that was given up can be redriven by hand", async ({ rig }) => {
    const id = await rig.running([2]);
    await rig.serve();
    await lookOn(rig, 4);
    expect(await rig.redrive(id)).toMatchObject({ redriven: 2 });
    await rig.settle(await rig.leaseOne());
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("a reopened batch starts with no stalls", async ({ rig }) => {
    const id = await rig.running([1, 1]);
    await rig.serve();
    await lookOn(rig, 3);
    await rig.runAll(id, () => ({ failed: [0] }));
    await rig.redrive(id);
    expect(await lookOn(rig, 3)).toEqual([0, 1, 1]);
    expect(await rig.state(id)).toBe("running");
  });
}

const STALE: Partial<SweepPolicy> = { orphanMs: 1_000, staleMs: 5_000 };

function describeOrphans(rule: Rule): void {
  const lane = "main";

  for (const state of ["submitted", "slicing"] as const) {
    rule(
      `a ${state} batch without progress is parked as stale, and its lane goes on`,
      async ({ rig }) => {
        const { id } = await rig.submit({ lane });
        if (state === "slicing") {
          await rig.store.startSlicing(id, false);
          await rig.plan(id, manifests(2));
        }
        const next = await rig.submit({ lane });
        const { sliceFence: fence } = await rig.get(id);
        rig.clock.advance(4_999);
        expect((await rig.sweep(STALE)).tended).toBe(0);
        rig.clock.advance(1);
        expect((await rig.sweep(STALE)).tended).toBe(1);
        expect(await rig.get(id)).toMatchObject({
          active: false,
          parked: { code: "STALE" },
          state,
        });
        expect((await rig.get(next.id)).active).toBe(true);
        expect((await rig.plan(id, manifests(1), { fence })).kind).toBe("moved_on");
        expect((await rig.store.finishSlicing(id, 1, fence)).kind).toBe("moved_on");
        expect(await rig.recorded(id, "batch.parked")).toMatchObject([{ code: "STALE" }]);
      },
    );
  }

  rule("a batch that was parked as stale is sliced when it is resumed", async ({ rig }) => {
    const { id } = await rig.submit({ lane });
    rig.clock.advance(5_000);
    await rig.sweep(STALE);
    expect(await rig.store.listUnsliced("import", 9)).toEqual([]);
    await rig.resume("batch", id);
    expect(await rig.get(id)).toMatchObject({ active: true, parked: null });
    expect(await rig.sweep(STALE)).toMatchObject({ tended: 0 });
    await rig.slice(id, [1]);
    expect(await rig.lease()).toHaveLength(1);
  });

  rule("a batch that is being sliced is not stale", async ({ rig }) => {
    const id = await rig.slicing({ lane });
    for (let round = 0; round < 3; round++) {
      rig.clock.advance(4_000);
      await rig.plan(id, manifests(1));
      expect((await rig.sweep(STALE)).tended).toBe(0);
    }
    rig.clock.advance(4_000);
    await rig.store.startSlicing(id, false);
    rig.clock.advance(4_000);
    await rig.store.claim(`slicing/${id}`, rig.worker, 2_000);
    rig.clock.advance(1_999);
    expect((await rig.sweep(STALE)).tended).toBe(0);
    rig.clock.advance(1);
    expect((await rig.sweep(STALE)).tended).toBe(1);
  });

  rule("a paused batch and a waiting batch are not stale", async ({ rig }) => {
    const paused = await rig.submit({ lane });
    const waiting = await rig.submit({ lane });
    await rig.pause("batch", paused.id);
    rig.clock.advance(50_000);
    expect((await rig.sweep(STALE)).tended).toBe(0);
    await rig.resume("batch", paused.id);
    expect((await rig.sweep(STALE)).tended).toBe(0);
    expect((await rig.get(waiting.id)).parked).toBeNull();
    rig.clock.advance(5_000);
    expect((await rig.sweep(STALE)).tended).toBe(1);
  });

  rule("a running batch is never stale, whichever worker runs it", async ({ rig }) => {
    const id = await rig.running([1], { lane });
    rig.clock.advance(10 ** 7);
    expect((await rig.sweep(STALE)).tended).toBe(0);
    expect(await rig.get(id)).toMatchObject({ state: "running", active: true });
  });

  for (const { policy, becomes } of [
    { policy: "block", becomes: { active: true, state: "running", parked: null } },
    { policy: "skip", becomes: { active: false, state: "ready", parked: null } },
    { policy: "park", becomes: { active: false, state: "ready", parked: { code: "STUCK" } } },
  ] as const) {
    rule(`applies the lane policy \`${policy}\` to an orphan without a worker`, async ({ rig }) => {
      const orphan = await rig.running([1], { lane, pipeline: "export" });
      const next = await rig.running([1], { lane });
      await rig.serve();
      await rig.store.setLanePolicy(lane, policy);
      await rig.sweep(STALE);
      rig.clock.advance(999);
      expect((await rig.sweep(STALE)).tended).toBe(0);
      expect((await rig.get(orphan)).active).toBe(true);
      rig.clock.advance(1);
      expect((await rig.sweep(STALE)).tended).toBe(policy === "block" ? 0 : 1);
      expect(await rig.get(orphan)).toMatchObject(becomes);
      expect((await rig.get(next)).active).toBe(policy !== "block");
    });

    rule(
      `with \`${policy}\` a batch that has a worker or is worked on keeps its lane`,
      async ({ rig }) => {
        const served = await rig.running([1], { lane });
        const worked = await rig.running([1], { lane: "other", pipeline: "export" });
        for (const name of [lane, "other"]) {
          await rig.running([1], { lane: name });
          await rig.store.setLanePolicy(name, policy);
        }
        await rig.serve();
        await rig.lease({ pipeline: "export", leaseMs: 10 ** 6 });
        rig.clock.advance(10_000);
        await rig.sweep({ ...STALE, stallsMax: 99 });
        expect((await rig.get(served)).active).toBe(true);
        expect((await rig.get(worked)).active).toBe(true);
      },
    );
  }
}
