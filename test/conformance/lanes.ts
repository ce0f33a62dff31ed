/**
 * Lanes: one batch at a time, in order. A blocked head blocks its lane, is skipped or is parked.
 */
import { expect } from "vitest";
import type { LanePolicy } from "../../src/core/batch/lane.ts";
import { LEASE_MS, ME, type Rig, type Rule, say, SEAL_WITHIN_MS } from "./rig.ts";

const LANE = { lane: "main" };

/** Batches of one lane, each with one chunk of one item, planned as far as possible. */
export async function queue(rig: Rig, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push(await rig.running([1], LANE));
  return ids;
}

async function holders(rig: Rig, ids: readonly string[]): Promise<string[]> {
  const batches = await Promise.all(ids.map((id) => rig.get(id)));
  return batches.filter(({ active }) => active).map(({ id }) => id);
}

/** Runs the lane until it is empty. Returns the order in which its batches got their turn. */
export async function runLane(rig: Rig): Promise<string[]> {
  const order: string[] = [];
  for (let round = 0; round < 50; round++) {
    const [lease] = await rig.lease();
    if (lease === undefined) return order;
    order.push(lease.batch);
    await rig.settle(lease);
  }
  throw new Error("the lane does not end");
}

export function describeLanes(rule: Rule): void {
  describeTurns(rule);
  describePolicies(rule);
}

function describeTurns(rule: Rule): void {
  rule("a batch starts at once when its lane is free", async ({ rig }) => {
    const batch = await rig.submit(LANE);
    expect(batch).toMatchObject({ active: true, startedAt: rig.clock.wallMs() });
    expect(await rig.recorded(batch.id, "batch.started")).toEqual([{ step: 0, drive: 1 }]);
  });

  rule("a second batch of the lane waits, and nothing of it is leased", async ({ rig }) => {
    const [first, second] = (await queue(rig, 2)) as [string, string];
    expect(await rig.get(second)).toMatchObject({ active: false, state: "ready", startedAt: null });
    const leased = await rig.lease({ chunksMax: 9 });
    expect(leased.map(({ batch }) => batch)).toEqual([first]);
    expect(await rig.look({ batch: second })).toMatchObject({ leased: [], nextDueInMs: null });
  });

  rule("only a batch that has its turn is offered for slicing", async ({ rig }) => {
    const first = await rig.submit(LANE);
    const second = await rig.submit(LANE);
    const third = await rig.submit({ lane: "other" });
    const list = async (): Promise<string[]> =>
      (await rig.store.listUnsliced("import", 9)).map(({ id }) => id);
    expect(await list()).toEqual([first.id, third.id]);
    await rig.slice(first.id, []);
    expect(await list()).toEqual([second.id, third.id]);
    expect((await rig.store.listUnsliced("import", 1)).map(({ id }) => id)).toEqual([second.id]);
    expect(await rig.store.listUnsliced("export", 9)).toEqual([]);
    await rig.store.startSlicing(second.id, false);
    expect(await list()).toEqual([second.id, third.id]);
    await rig.cancel(third.id);
    expect(await list()).toEqual([second.id]);
  });

  rule(
    "all pipelines share a lane of the same name, and different lanes run side by side",
    async ({ rig }) => {
      const one = await rig.running([1], LANE);
      const two = await rig.running([1], { ...LANE, pipeline: "export" });
      const elsewhere = await rig.running([1], { lane: "other", pipeline: "export" });
      expect(await holders(rig, [one, two, elsewhere])).toEqual([one, elsewhere]);
    },
  );

  rule("the commit that ends the lane's holder starts its successor", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    const lease = await rig.leaseOne();
    rig.clock.advance(5);
    const both = await rig.store.work([say(lease, { succeeded: [0] })], rig.request());
    expect(both).toMatchObject({ ended: [first], leased: [{ batch: second, fence: 1 }] });
    expect(await rig.get(second)).toMatchObject({
      state: "running",
      active: true,
      startedAt: rig.clock.wallMs(),
    });
    expect(await holders(rig, [first, second, third])).toEqual([second]);
  });

  rule("batches of a lane start in the order of their submission", async ({ rig }) => {
    const ids = await queue(rig, 5);
    expect(await runLane(rig)).toEqual(ids);
    const starts = (await rig.store.readRecords(null, 0, 1_000)).filter(
      ({ type }) => type === "batch.started",
    );
    expect(starts.map(({ batch }) => batch)).toEqual(ids);
  });

  for (const { end, how } of [
    { end: "succeeded", how: (rig: Rig) => rig.leaseOne().then((lease) => rig.settle(lease)) },
    {
      end: "failed",
      how: (rig: Rig, id: string) => rig.store.fail(id, { code: "X", message: "" }),
    },
    { end: "cancelled", how: (rig: Rig, id: string) => rig.cancel(id) },
    {
      end: "expired",
      how: (rig: Rig) => {
        rig.clock.advance(SEAL_WITHIN_MS);
        return rig.sweep();
      },
    },
  ] as const) {
    rule(`a batch that ends ${end} frees its lane in the same commit`, async ({ rig }) => {
      const deadlineAt = rig.clock.wallMs() + SEAL_WITHIN_MS;
      const first = await rig.running([1], { ...LANE, deadlineAt });
      const second = await rig.running([1], LANE);
      await how(rig, first);
      expect(await rig.get(first)).toMatchObject({ state: end, active: false });
      expect(await rig.get(second)).toMatchObject({ state: "running", active: true });
      expect(await rig.recorded(first, "batch.released")).toEqual([{ lane: "main" }]);
    });
  }

  rule("batches without items pass the lane on at once", async ({ rig }) => {
    const first = await rig.running([1], LANE);
    const empty = [await rig.running([], LANE), await rig.running([], LANE)];
    const last = await rig.running([1], LANE);
    expect(await rig.state(empty[0]!)).toBe("ready");
    const { ended } = await rig.store.work([say(await rig.leaseOne(), { succeeded: [0] })], null);
    expect(ended).toEqual([first, ...empty]);
    expect(await holders(rig, [first, ...empty, last])).toEqual([last]);
  });

  rule("an open batch that waits for its turn can take items and be sealed", async ({ rig }) => {
    const first = await rig.running([1], LANE);
    const open = await rig.running([1], { ...LANE, open: true });
    expect(await rig.plan(open, [{ items: 2, locator: "x", manifest: null, keys: null }])).toEqual({
      kind: "planned",
      chunks: 2,
    });
    expect((await rig.store.seal(open)).batch).toMatchObject({ state: "ready", sealed: true });
    await rig.cancel(first);
    await rig.runAll(open, (lease) => ({ succeeded: [...Array(lease.end - lease.start).keys()] }));
    expect(await rig.get(open)).toMatchObject({ state: "succeeded", counts: { succeeded: 3 } });
  });

  rule("a waiting batch can be cancelled, and the others keep their order", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    expect((await rig.cancel(second)).batch).toMatchObject({
      state: "cancelled",
      counts: { cancelled: 1, pending: 0 },
    });
    expect(await holders(rig, [first, second, third])).toEqual([first]);
    expect(await runLane(rig)).toEqual([first, third]);
  });

  rule(
    "a reopened batch waits at the head of its lane and does not replace the running batch",
    async ({ rig }) => {
      const reopened = await rig.running([1], LANE);
      await rig.report(await rig.leaseOne(), { failed: [0] });
      const ids = await queue(rig, 3);
      expect(await rig.redrive(reopened)).toMatchObject({
        kind: "done",
        batch: { state: "ready", active: false },
      });
      expect(await holders(rig, [reopened, ...ids])).toEqual([ids[0]]);
      expect(await runLane(rig)).toEqual([ids[0], reopened, ids[1], ids[2]]);
    },
  );

  rule("a reopened batch starts at once when its lane is free", async ({ rig }) => {
    const id = await rig.running([1], LANE);
    await rig.report(await rig.leaseOne(), { failed: [0] });
    expect(await rig.redrive(id)).toMatchObject({ batch: { state: "running", active: true } });
    expect(await runLane(rig)).toEqual([id]);
  });

  rule(
    "lanes with work are listed by name, with their holder, queue and parked batches",
    async ({ rig }) => {
      await rig.store.setLanePolicy("b", "park");
      const [holder] = [
        await rig.running([1], { lane: "b" }),
        await rig.running([1], { lane: "b" }),
      ];
      await rig.running([1], { lane: "b" });
      const alone = await rig.running([1], { lane: "a" });
      await rig.running([], { lane: "done" });
      await rig.pause("batch", holder);
      await rig.sweep();
      await rig.pause("lane", "a", "now");
      const [, second] = await rig.store.listBatches({ lane: "b", limit: 9 });
      expect(await rig.store.listLanes()).toEqual([
        {
          lane: "a",
          policy: "block",
          pause: { scope: "lane", name: "a", mode: "now", ...ME },
          holder: alone,
          waiting: 0,
          parked: 0,
        },
        { lane: "b", policy: "park", pause: null, holder: second?.id, waiting: 1, parked: 1 },
      ]);
    },
  );
}

function describePolicies(rule: Rule): void {
  rule("by default a paused holder blocks its lane", async ({ rig }) => {
    const [first, second] = (await queue(rig, 2)) as [string, string];
    await rig.serve();
    await rig.pause("batch", first);
    rig.clock.advance(LEASE_MS);
    expect(await rig.sweep()).toMatchObject({ tended: 0 });
    expect(await holders(rig, [first, second])).toEqual([first]);
  });

  rule("with `block` a paused batch gets its turn", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    await rig.pause("batch", second);
    await rig.cancel(first);
    expect(await holders(rig, [second, third])).toEqual([second]);
    expect(await rig.lease({ chunksMax: 9 })).toEqual([]);
  });

  rule(
    "with `skip` a paused holder gives up its turn and is the first to start when it is resumed",
    async ({ rig }) => {
      const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
      await rig.serve();
      await rig.store.setLanePolicy("main", "skip");
      await rig.pause("batch", first);
      expect(await rig.sweep()).toMatchObject({ tended: 1, ended: [] });
      expect(await rig.get(first)).toMatchObject({ state: "ready", active: false, parked: null });
      expect(await rig.get(second)).toMatchObject({ state: "running", active: true });
      await rig.resume("batch", first);
      expect(await holders(rig, [first, second, third])).toEqual([second]);
      expect(await runLane(rig)).toEqual([second, first, third]);
    },
  );

  rule("with `skip` a paused batch is passed over when a turn is given", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    await rig.serve();
    await rig.store.setLanePolicy("main", "skip");
    await rig.pause("batch", second);
    await rig.cancel(first);
    expect(await holders(rig, [second, third])).toEqual([third]);
    await rig.resume("batch", second);
    expect(await runLane(rig)).toEqual([third, second]);
  });

  rule("with `skip` a batch without a worker is passed over until it has one", async ({ rig }) => {
    await rig.store.setLanePolicy("main", "skip");
    const unserved = await rig.running([1], { ...LANE, pipeline: "export" });
    expect((await rig.get(unserved)).active).toBe(false);
    await rig.serve();
    const served = await rig.running([1], LANE);
    expect(await holders(rig, [unserved, served])).toEqual([served]);
    await rig.settle(await rig.leaseOne());
    expect((await rig.get(unserved)).active).toBe(false);
    await rig.serve("export");
    await rig.sweep();
    expect(await rig.get(unserved)).toMatchObject({ state: "running", active: true });
  });

  rule("with `park` a stuck holder leaves the queue until it is resumed", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    await rig.serve();
    await rig.store.setLanePolicy("main", "park");
    await rig.pause("batch", first);
    await rig.sweep();
    const parked = { code: "STUCK", message: "its batch is paused" };
    expect(await rig.get(first)).toMatchObject({ state: "ready", active: false, parked });
    expect(await rig.recorded(first, "batch.parked")).toEqual([parked]);
    expect(await holders(rig, [first, second, third])).toEqual([second]);
    await rig.settle(await rig.leaseOne());
    expect(await holders(rig, [first, third])).toEqual([third]);
    expect(await rig.resume("batch", first)).toBe(true);
    expect(await rig.get(first)).toMatchObject({ parked: null, pause: null, state: "ready" });
    expect(await runLane(rig)).toEqual([third, first]);
  });

  rule("with `park` stuck heads are parked when a turn is given", async ({ rig }) => {
    const [first, second, third] = (await queue(rig, 3)) as [string, string, string];
    await rig.store.setLanePolicy("main", "park");
    await rig.pause("batch", second);
    await rig.cancel(first);
    expect(await rig.get(second)).toMatchObject({ active: false, parked: { code: "STUCK" } });
    expect(await holders(rig, [second, third])).toEqual([third]);
  });

  rule("a resumed parked batch starts at once when its lane is free", async ({ rig }) => {
    const [first, second] = (await queue(rig, 2)) as [string, string];
    await rig.store.setLanePolicy("main", "park");
    await rig.pause("batch", second);
    await rig.cancel(first);
    expect(await rig.get(second)).toMatchObject({ active: false, parked: { code: "STUCK" } });
    await rig.resume("batch", second);
    expect(await rig.get(second)).toMatchObject({ active: true, state: "running" });
  });

  rule("a parked batch can be cancelled", async ({ rig }) => {
    const [first, second] = (await queue(rig, 2)) as [string, string];
    await rig.store.setLanePolicy("main", "park");
    await rig.pause("batch", second);
    await rig.cancel(first);
    expect((await rig.cancel(second)).batch).toMatchObject({ state: "cancelled", parked: null });
  });

  for (const policy of ["skip", "park"] as const satisfies readonly LanePolicy[]) {
    rule(
      `with \`${policy}\` a paused holder with leased chunks keeps its turn`,
      async ({ rig }) => {
        const [first, second] = (await queue(rig, 2)) as [string, string];
        await rig.serve();
        await rig.store.setLanePolicy("main", policy);
        const lease = await rig.leaseOne();
        await rig.pause("batch", first);
        await rig.sweep();
        expect(await holders(rig, [first, second])).toEqual([first]);
        await rig.report(lease, {});
        await rig.sweep();
        expect(await holders(rig, [first, second])).toEqual([second]);
      },
    );

    rule(
      `with \`${policy}\` a holder keeps its turn when no other batch could start`,
      async ({ rig }) => {
        const [first, second] = (await queue(rig, 2)) as [string, string];
        await rig.serve();
        await rig.store.setLanePolicy("main", policy);
        await rig.pause("lane", "main");
        expect(await rig.sweep()).toMatchObject({ tended: 0 });
        expect(await rig.get(first)).toMatchObject({
          active: true,
          state: "running",
          parked: null,
        });
        expect(await rig.get(second)).toMatchObject({ active: false, parked: null });
      },
    );
  }

  rule(
    "a blocked lane goes on when its policy is changed to one that allows it",
    async ({ rig }) => {
      await rig.store.setLanePolicy("main", "skip");
      const unserved = await rig.running([1], LANE);
      expect((await rig.get(unserved)).active).toBe(false);
      await rig.store.setLanePolicy("main", "block");
      expect(await rig.get(unserved)).toMatchObject({ active: true, state: "running" });
    },
  );
}
