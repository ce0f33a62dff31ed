/**
 * Races with the ending of a batch, in both orders and at once. The store runs two concurrent acts
 * one after the other, and no order breaks a promise.
 */
import { expect } from "vitest";
import type { BatchSnapshot } from "../../src/ports/store/conductor-store.ts";
import { LEASE_MS, manifests, type Rig, type Rule, steps } from "./rig.ts";

type Act = () => Promise<unknown>;

/** Runs two acts in the given order, in the other order, or both at once. */
const ORDERS = {
  "one first": async (one: Act, two: Act) => [await one(), await two()],
  "two first": async (one: Act, two: Act) => {
    const second = await two();
    return [await one(), second];
  },
  "at once": async (one: Act, two: Act) => Promise.all([one(), two()]),
} as const;
type Order = keyof typeof ORDERS;

export function eachOrder(
  rule: Rule,
  name: string,
  scene: (rig: Rig, run: (typeof ORDERS)[Order], order: Order) => Promise<void>,
): void {
  for (const order of Object.keys(ORDERS) as Order[]) {
    rule(`${name} (${order})`, ({ rig }) => scene(rig, ORDERS[order], order));
  }
}

/** What must be true of an ended batch, whatever happened to it. */
export async function expectHonest(rig: Rig, id: string, endings = 1): Promise<BatchSnapshot> {
  const batch = await rig.get(id);
  const { counts, state } = batch;
  expect(counts.pending).toBe(0);
  expect(await rig.recount(id)).toEqual({ counters: counts, recounted: counts });
  expect(await rig.recorded(id, "batch.ended")).toHaveLength(endings);
  expect((await rig.recorded(id, "batch.ended")).at(-1)).toMatchObject({ state, counts });
  if (state === "succeeded") expect(counts.failed + counts.cancelled).toBe(0);
  if (state === "completed_with_errors") expect(counts.failed).toBeGreaterThan(0);
  expect(batch.active).toBe(false);
  return batch;
}

export function describeEndingRaces(rule: Rule): void {
  for (const mode of ["drain", "now"] as const) {
    eachOrder(rule, `cancel (${mode}) against the last settle`, async (rig, run, order) => {
      const id = await rig.running([2]);
      const lease = await rig.leaseOne();
      const [cancelled, settled] = await run(
        () => rig.cancel(id, mode),
        () => rig.settle(lease),
      );
      expect(settled).toBe("settled");
      const batch = await expectHonest(rig, id);
      expect(batch.counts).toMatchObject({ succeeded: 2, cancelled: 0 });
      if (order === "one first") expect(batch.state).toBe("cancelled");
      if (order === "two first") {
        expect(batch.state).toBe("succeeded");
        expect(cancelled).toMatchObject({ kind: "moved_on" });
      }
    });
  }

  eachOrder(rule, "cancel against the loss of the last lease", async (rig, run) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    rig.clock.advance(LEASE_MS);
    await run(
      () => rig.cancel(id),
      () => rig.sweep(),
    );
    await rig.sweep();
    expect(await expectHonest(rig, id)).toMatchObject({ state: "cancelled" });
    expect(await rig.settle(lease)).toBe("lost");
  });

  eachOrder(rule, "cancel against the end of slicing", async (rig, run) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2));
    const { sliceFence } = await rig.get(id);
    await run(
      () => rig.cancel(id),
      () => rig.store.finishSlicing(id, 1, sliceFence),
    );
    expect(await expectHonest(rig, id)).toMatchObject({
      state: "cancelled",
      counts: { cancelled: 2 },
    });
    expect(await rig.lease()).toEqual([]);
  });

  eachOrder(rule, "cancel against a plan part", async (rig, run, order) => {
    const id = await rig.slicing();
    const [, planned] = await run(
      () => rig.cancel(id),
      () => rig.plan(id, manifests(2)),
    );
    const batch = await expectHonest(rig, id);
    const added = (planned as { kind: string }).kind === "planned" ? 2 : 0;
    expect(batch.counts).toMatchObject({ planned: added, cancelled: added });
    if (order === "one first") expect(added).toBe(0);
  });

  eachOrder(rule, "cancel against cancel", async (rig, run, order) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await run(
      () => rig.store.cancel(id, { mode: "drain", by: "ann", why: null }),
      () => rig.store.cancel(id, { mode: "now", by: "bob", why: null }),
    );
    expect((await rig.get(id)).cancel).toMatchObject({ mode: "now", by: "bob" });
    const { length: asked } = await rig.recorded(id, "batch.cancel_requested");
    // A cancel that asks for no more than the earlier one is not recorded.
    const possible = { "one first": [2], "two first": [1], "at once": [1, 2] }[order];
    expect(possible).toContain(asked);
    await rig.report(lease, {});
    await expectHonest(rig, id);
  });

  eachOrder(rule, "seal against the last settle", async (rig, run) => {
    const id = await rig.running([1], { open: true });
    const lease = await rig.leaseOne();
    const [sealed, settled] = await run(
      () => rig.store.seal(id),
      () => rig.settle(lease),
    );
    expect([sealed, settled]).toMatchObject([{ kind: "done" }, "settled"]);
    expect(await expectHonest(rig, id)).toMatchObject({ state: "succeeded", sealed: true });
    expect(await rig.recorded(id, "batch.sealed")).toHaveLength(1);
  });

  eachOrder(rule, "seal against the last item of a producer", async (rig, run, order) => {
    const id = await rig.running([1], { open: true });
    await rig.settle(await rig.leaseOne());
    const [, planned] = await run(
      () => rig.store.seal(id),
      () => rig.plan(id, manifests(1)),
    );
    const added = (planned as { kind: string }).kind === "planned";
    if (order === "one first") expect(added).toBe(false);
    if (order === "two first") expect(added).toBe(true);
    if (added) await rig.settle(await rig.leaseOne());
    expect((await expectHonest(rig, id)).counts.planned).toBe(added ? 2 : 1);
  });

  eachOrder(rule, "redrive against the ending", async (rig, run, order) => {
    const id = await rig.running([1, 1]);
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { failed: [0] });
    const [redriven] = await run(
      () => rig.redrive(id),
      () => rig.settle(two!),
    );
    expect(redriven).toMatchObject({ kind: "done", redriven: 1 });
    await rig.settle(await rig.leaseOne());
    const endings = (await rig.recorded(id, "batch.reopened")).length + 1;
    if (order === "one first") expect(endings).toBe(1);
    if (order === "two first") expect(endings).toBe(2);
    expect(await expectHonest(rig, id, endings)).toMatchObject({ state: "succeeded", drive: 2 });
  });

  eachOrder(rule, "redrive against redrive", async (rig, run) => {
    const id = await rig.running([2]);
    await rig.report(await rig.leaseOne(), { failed: [0, 1] });
    const answers = (await run(
      () => rig.redrive(id),
      () => rig.redrive(id),
    )) as { kind: string }[];
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(["done", "refused"]);
    expect(await rig.get(id)).toMatchObject({ drive: 2, counts: { pending: 2, failed: 0 } });
    await rig.settle(await rig.leaseOne());
    await expectHonest(rig, id, 2);
  });

  eachOrder(rule, "redrive against cancel", async (rig, run) => {
    const id = await rig.running([1, 1]);
    const [one] = await rig.lease({ chunksMax: 1 });
    await rig.report(one!, { failed: [0] });
    await run(
      () => rig.redrive(id),
      () => rig.cancel(id),
    );
    const batch = await expectHonest(rig, id);
    expect(batch.state).toBe("cancelled");
    expect(batch.counts.failed + batch.counts.cancelled).toBe(2);
    expect(await rig.lease()).toEqual([]);
  });

  eachOrder(rule, "discard against redrive", async (rig, run, order) => {
    const id = await rig.running([1]);
    await rig.report(await rig.leaseOne(), { failed: [0] });
    const [discarded, redriven] = await run(
      () => rig.discard(id),
      () => rig.redrive(id),
    );
    if (order === "one first") {
      expect([discarded, redriven]).toMatchObject([1, { kind: "refused", why: "no_dead_letters" }]);
    }
    if (order === "two first") expect([discarded, redriven]).toMatchObject([0, { kind: "done" }]);
    const running = (await rig.state(id)) === "running";
    expect(running).toBe(discarded === 0);
    if (running) await rig.settle(await rig.leaseOne());
    await expectHonest(rig, id, running ? 2 : 1);
  });

  eachOrder(rule, "edit against redrive", async (rig, run) => {
    const id = await rig.running([1]);
    await rig.report(await rig.leaseOne(), { failed: [0] });
    const [edited] = await run(
      () => rig.edit(id, 0, "1"),
      () => rig.redrive(id),
    );
    expect((await rig.leaseOne()).overrides).toHaveLength(edited === true ? 1 : 0);
    expect(await rig.recorded(id, "dead_letter.edited")).toHaveLength(edited === true ? 1 : 0);
  });

  for (const scope of ["batch", "lane", "pipeline"] as const) {
    eachOrder(rule, `pause of a ${scope} against the ending`, async (rig, run) => {
      const id = await rig.running([1], { lane: "main" });
      const next = await rig.running([1], { lane: "main" });
      const name = { batch: id, lane: "main", pipeline: "import" }[scope];
      const lease = await rig.leaseOne();
      const [, settled] = await run(
        () => rig.pause(scope, name),
        () => rig.settle(lease),
      );
      expect(settled).toBe("settled");
      expect(await expectHonest(rig, id)).toMatchObject({ state: "succeeded" });
      expect((await rig.get(next)).active).toBe(true);
      expect(await rig.lease()).toHaveLength(scope === "batch" ? 1 : 0);
    });
  }

  eachOrder(rule, "pause against a lease", async (rig, run, order) => {
    const id = await rig.running([1]);
    const [, leased] = await run(
      () => rig.pause("batch", id),
      () => rig.lease(),
    );
    if (order === "one first") expect(leased).toEqual([]);
    if (order === "two first") expect(leased).toHaveLength(1);
    expect(await rig.lease()).toEqual([]);
    await rig.resume("batch", id);
    if ((leased as unknown[]).length === 0) expect(await rig.lease()).toHaveLength(1);
  });

  eachOrder(rule, "expiry against the last settle", async (rig, run) => {
    const id = await rig.running([1], { deadlineAt: rig.clock.wallMs() + 5 });
    const lease = await rig.leaseOne();
    rig.clock.advance(5);
    const [, settled] = await run(
      () => rig.sweep(),
      () => rig.settle(lease),
    );
    const { state } = await expectHonest(rig, id);
    expect(state).toBe(settled === "settled" ? "succeeded" : "expired");
  });

  eachOrder(rule, "fail() against the last settle", async (rig, run) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    const [, settled] = await run(
      () => rig.store.fail(id, { code: "STOP", message: "stop" }),
      () => rig.settle(lease),
    );
    const { state } = await expectHonest(rig, id);
    expect(state).toBe(settled === "settled" ? "succeeded" : "failed");
  });

  eachOrder(rule, "the last settle against the last settle, of two steps", async (rig, run) => {
    const id = await rig.running([1, 1], { settings: steps({}, { name: "two" }) });
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await run(
      () => rig.settle(one!),
      () => rig.settle(two!),
    );
    expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1 });
    expect(await rig.recorded(id, "step.ended")).toHaveLength(1);
    expect(await rig.recorded(id, "slicing.started")).toHaveLength(2);
  });
}
