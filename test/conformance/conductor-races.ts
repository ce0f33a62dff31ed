/** Races of conductors, lanes and sweeps, in both orders and at once. */
import { expect } from "vitest";
import type { BatchSnapshot } from "../../src/ports/store/conductor-store.ts";
import { eachOrder, expectHonest } from "./ending-races.ts";
import { LEASE_MS, manifests, ME, type Rig, type Rule, say, steps } from "./rig.ts";

export function describeConductorRaces(rule: Rule): void {
  describePlanners(rule);
  describeLanesAndSweeps(rule);
}

function describePlanners(rule: Rule): void {
  eachOrder(rule, "two conductors that start to slice", async (rig, run) => {
    const { id } = await rig.submit();
    const [a, b] = (await run(
      () => rig.store.startSlicing(id, false),
      () => rig.store.startSlicing(id, false),
    )) as { batch: BatchSnapshot }[];
    const fences = [a!.batch.sliceFence, b!.batch.sliceFence];
    expect(new Set(fences).size).toBe(2);
    expect(await rig.recorded(id, "slicing.started")).toHaveLength(1);
    const [loser, winner] = fences.toSorted((x, y) => x - y);
    expect((await rig.plan(id, manifests(1), { fence: loser! })).kind).toBe("moved_on");
    expect((await rig.plan(id, manifests(1), { fence: winner! })).kind).toBe("planned");
  });

  eachOrder(rule, "a plan part against a second slicer", async (rig, run, order) => {
    const id = await rig.slicing();
    const { sliceFence: fence } = await rig.get(id);
    const [planned] = await run(
      () => rig.plan(id, manifests(2), { fence, afterChunks: 0, part: "mine" }),
      () => rig.store.startSlicing(id, false),
    );
    const added = (planned as { kind: string }).kind === "planned" ? 1 : 0;
    if (order === "two first") expect(added).toBe(0);
    await rig.plan(id, manifests(3));
    await rig.finishSlicing(id, added + 1);
    expect((await rig.get(id)).counts.planned).toBe(added * 2 + 3);
  });

  eachOrder(rule, "two conductors that finish the slicing", async (rig, run) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(1));
    const { sliceFence } = await rig.get(id);
    const answers = (await run(
      () => rig.store.finishSlicing(id, 1, sliceFence),
      () => rig.store.finishSlicing(id, 1, sliceFence),
    )) as { kind: string }[];
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["done", "moved_on"]);
    expect(await rig.recorded(id, "slicing.finished")).toHaveLength(1);
  });

  eachOrder(rule, "a late slicer of one step against the next step", async (rig, run) => {
    const id = await rig.slicing({ settings: steps({}, { name: "two" }) });
    const { sliceFence: fence } = await rig.get(id);
    await run(
      () => rig.store.finishSlicing(id, 0, fence),
      () => rig.store.finishSlicing(id, 0, fence),
    );
    // Both calls of the late slicer are refused, because the batch is at another step.
    expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1 });
    expect((await rig.store.finishSlicing(id, 0, fence)).kind).toBe("moved_on");
    expect((await rig.plan(id, manifests(1), { step: 0, fence })).kind).toBe("moved_on");
  });

  eachOrder(rule, "two submissions of one key", async (rig, run) => {
    const drafts = [1, 2].map(() => rig.draft({ key: "monday", inputHash: "same", lane: "main" }));
    const answers = (await run(
      () => rig.store.submit(drafts[0]!),
      () => rig.store.submit(drafts[1]!),
    )) as { kind: string; batch: BatchSnapshot }[];
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["created", "existing"]);
    expect(new Set(answers.map(({ batch }) => batch.id)).size).toBe(1);
  });
}

function describeLanesAndSweeps(rule: Rule): void {
  eachOrder(rule, "the start of a successor against a submission", async (rig, run) => {
    const lane = "main";
    const first = await rig.running([1], { lane });
    const second = await rig.running([1], { lane });
    const lease = await rig.leaseOne();
    const draft = rig.draft({ lane });
    await run(
      () => rig.settle(lease),
      () => rig.store.submit(draft),
    );
    await expectHonest(rig, first);
    expect(await rig.get(second)).toMatchObject({ active: true, state: "running" });
    expect(await rig.get(draft.id)).toMatchObject({ active: false });
  });

  eachOrder(rule, "the end of a lane's last batch against a submission", async (rig, run) => {
    const lane = "main";
    await rig.running([1], { lane });
    const lease = await rig.leaseOne();
    const draft = rig.draft({ lane });
    await run(
      () => rig.settle(lease),
      () => rig.store.submit(draft),
    );
    expect(await rig.get(draft.id)).toMatchObject({ active: true });
    expect(await rig.recorded(draft.id, "batch.started")).toHaveLength(1);
  });

  eachOrder(rule, "the end of a holder against the cancel of its successor", async (rig, run) => {
    const lane = "main";
    const [first, second, third] = [
      await rig.running([1], { lane }),
      await rig.running([1], { lane }),
      await rig.running([1], { lane }),
    ];
    const lease = await rig.leaseOne();
    await run(
      () => rig.settle(lease),
      () => rig.cancel(second),
    );
    await expectHonest(rig, first);
    await expectHonest(rig, second);
    expect(await rig.get(third)).toMatchObject({ active: true });
  });

  eachOrder(rule, "a reopening against the end of the holder", async (rig, run) => {
    const lane = "main";
    const ended = await rig.running([1], { lane });
    await rig.report(await rig.leaseOne(), { failed: [0] });
    await rig.running([1], { lane });
    const waiting = await rig.running([1], { lane });
    const lease = await rig.leaseOne();
    await run(
      () => rig.redrive(ended),
      () => rig.settle(lease),
    );
    const holders = [await rig.get(ended), await rig.get(waiting)].filter(({ active }) => active);
    expect(holders).toHaveLength(1);
    for (let round = 0; round < 2; round++) await rig.settle(await rig.leaseOne());
    await expectHonest(rig, ended, 2);
    await expectHonest(rig, waiting);
  });

  eachOrder(rule, "two sweeps of one lost lease", async (rig, run) => {
    const id = await rig.running([1]);
    await rig.leaseOne();
    rig.clock.advance(LEASE_MS);
    const sweeps = (await run(
      () => rig.sweep(),
      () => rig.sweep(),
    )) as { lostLeases: number }[];
    expect(sweeps.map(({ lostLeases }) => lostLeases).toSorted((a, b) => a - b)).toEqual([0, 1]);
    await rig.settle(await rig.leaseOne());
    await expectHonest(rig, id);
  });

  eachOrder(rule, "two watches that give up", async (rig, run) => {
    const id = await rig.running([2]);
    await rig.serve();
    const policy = {
      watchDelays: { steps: [], elseMs: 10, stallMs: 10 },
      stallsMax: 0,
    };
    await rig.sweep(policy);
    rig.clock.advance(10);
    await run(
      () => rig.sweep(policy),
      () => rig.sweep(policy),
    );
    expect(await expectHonest(rig, id)).toMatchObject({ counts: { failed: 2 } });
  });

  eachOrder(rule, "a watch that gives up against a lease", async (rig, run) => {
    const id = await rig.running([1]);
    await rig.serve();
    const policy = {
      watchDelays: { steps: [], elseMs: 10, stallMs: 10 },
      stallsMax: 0,
    };
    await rig.sweep(policy);
    rig.clock.advance(10);
    const [, leased] = await run(
      () => rig.sweep(policy),
      () => rig.lease(),
    );
    const [lease] = leased as Awaited<ReturnType<Rig["lease"]>>;
    if (lease !== undefined) expect(await rig.settle(lease)).toBe("settled");
    const { state } = await expectHonest(rig, id);
    expect(state).toBe(lease === undefined ? "completed_with_errors" : "succeeded");
  });

  eachOrder(rule, "a stale settle against that of the new holder", async (rig, run) => {
    const id = await rig.running([2]);
    const zombie = await rig.leaseOne();
    await rig.lose();
    const successor = await rig.leaseOne();
    const [stale, good] = await run(
      () => rig.store.work([say(zombie, { failed: [0, 1], results: { 0: '"z"' } })], null),
      () => rig.settle(successor),
    );
    expect(stale).toMatchObject({ reports: ["lost"], ended: [] });
    expect(good).toBe("settled");
    expect((await expectHonest(rig, id)).counts).toMatchObject({ succeeded: 2, failed: 0 });
    expect(await rig.results(id)).toEqual([]);
  });

  eachOrder(rule, "a move against the end of the holder", async (rig, run, order) => {
    const lane = "main";
    await rig.running([1], { lane });
    const [second, third] = [await rig.running([1], { lane }), await rig.running([1], { lane })];
    const lease = await rig.leaseOne();
    const [moved] = await run(
      () => rig.store.moveInLane(third, { to: "front" }, ME),
      () => rig.settle(lease),
    );
    expect(moved).toMatchObject({ kind: "done" });
    const holders = [await rig.get(second), await rig.get(third)].filter(({ active }) => active);
    expect(holders).toHaveLength(1);
    if (order === "one first") expect(holders[0]?.id).toBe(third);
    if (order === "two first") expect(holders[0]?.id).toBe(second);
  });

  eachOrder(rule, "retention against a redrive", async (rig, run) => {
    const id = await rig.running([1]);
    await rig.report(await rig.leaseOne(), { failed: [0] });
    const policy = { scratchAgeMs: -1, evidenceAgeMs: null, dryRun: false };
    const [pruned, redriven] = await run(
      () => rig.store.prune(policy),
      () => rig.redrive(id),
    );
    const { pruned: isPruned } = await rig.get(id);
    expect(pruned).toMatchObject({ scratched: isPruned ? 1 : 0 });
    expect(redriven).toMatchObject({ kind: isPruned ? "refused" : "done" });
  });
}
