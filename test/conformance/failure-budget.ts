/** A failure budget or a canary ends a batch early, in the commit that exceeds it. */
import { expect } from "vitest";
import type { FailureBudget } from "../../src/core/batch/failure-budget.ts";
import type { ErrorClass } from "../../src/core/base/errors.ts";
import { LEASE_MS, manifests, type Rule, say, steps } from "./rig.ts";

const canary = (items: number, failuresMax = 0): ReturnType<typeof steps> =>
  steps({ chunkSize: 2, canary: { items, failuresMax } });

export function describeFailureBudget(rule: Rule): void {
  for (const { what, budget, spend, spent } of [
    { what: "a count", budget: { any: { count: 2 } }, spend: ["permanent"], spent: 3 },
    { what: "no failure", budget: { any: { count: 0 } }, spend: ["transient"], spent: 1 },
    { what: "a share", budget: { any: { percent: 25 } }, spend: ["unexpected"], spent: 3 },
    {
      what: "one class",
      budget: { transient: { count: 1 } },
      spend: ["permanent", "permanent", "transient", "transient"],
      spent: 4,
    },
  ] satisfies {
    what: string;
    budget: FailureBudget;
    spend: ErrorClass[];
    spent: number;
  }[]) {
    rule(
      `a budget of ${what} allows that many failures and stops the batch at one more`,
      async ({ rig }) => {
        const id = await rig.running([8, 2], { settings: steps({ budget }) });
        const [lease, other] = await rig.lease({ chunksMax: 2 });
        for (let failed = 0; failed < spent; failed++) {
          expect(await rig.state(id)).toBe("running");
          const errorClass = (spend[failed % spend.length] ?? "permanent") as ErrorClass;
          await rig.report(lease!, { failed: [failed], errorClass, intent: "keep" });
        }
        expect(await rig.get(id)).toMatchObject({
          state: "failed",
          reason: { code: "FAILURE_BUDGET", message: expect.any(String) as string },
          counts: { planned: 10, failed: spent, cancelled: 10 - spent, pending: 0 },
        });
        expect(await rig.settle(other!)).toBe("lost");
        expect(await rig.recorded(id, "batch.ended")).toMatchObject([{ code: "FAILURE_BUDGET" }]);
      },
    );
  }

  rule("a batch fails when its last settle exceeds the budget", async ({ rig }) => {
    const settings = steps({ budget: { any: { count: 0 } }, maxRedrives: 3 });
    const id = await rig.running([2], { settings });
    const report = say(await rig.leaseOne(), { failed: [0, 1], errorClass: "transient" });
    expect((await rig.store.work([report], null)).ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({ state: "failed", counts: { failed: 2 }, drive: 1 });
  });

  rule(
    "a percentage budget of an open batch is judged when the batch is sealed",
    async ({ rig }) => {
      const settings = steps({ budget: { any: { percent: 50 } } });
      const id = await rig.running([2], { settings, open: true });
      await rig.report(await rig.leaseOne(), { failed: [0, 1] });
      expect(await rig.state(id)).toBe("running");
      await rig.plan(id, manifests(1));
      expect((await rig.store.seal(id)).batch).toMatchObject({
        state: "failed",
        counts: { failed: 2, cancelled: 1 },
      });
    },
  );

  rule("a count budget of an open batch is judged at once", async ({ rig }) => {
    const settings = steps({ budget: { any: { count: 1 } } });
    const id = await rig.running([3], { settings, open: true });
    await rig.report(await rig.leaseOne(), { failed: [0, 1], intent: "keep" });
    expect(await rig.state(id)).toBe("failed");
  });

  rule("a convicted poison item counts against the budget", async ({ rig }) => {
    const id = await rig.running([1, 1], { settings: steps({ budget: { any: { count: 0 } } }) });
    await rig.leaseOne();
    await rig.lose();
    for (let deaths = 2; deaths <= 3; deaths++) {
      await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
    }
    expect(await rig.get(id)).toMatchObject({
      state: "failed",
      counts: { failed: 1, cancelled: 1 },
    });
  });

  rule("redriven items no longer count against the budget", async ({ rig }) => {
    const id = await rig.running([4], { settings: steps({ budget: { any: { count: 2 } } }) });
    await rig.report(await rig.leaseOne(), { failed: [0, 1] });
    await rig.redrive(id);
    await rig.report(await rig.leaseOne(), { failed: [0, 2], intent: "keep" });
    expect(await rig.state(id)).toBe("running");
  });

  rule(
    "redriven items no longer count against the budget of their error class",
    async ({ rig }) => {
      const settings = steps({ budget: { transient: { count: 2 }, permanent: { count: 1 } } });
      const id = await rig.running([4], { settings });
      const first = await rig.leaseOne();
      await rig.report(first, { failed: [0, 1], errorClass: "transient", intent: "keep" });
      await rig.report(first, { succeeded: [3], failed: [2] });
      await rig.redrive(id, { filter: { classes: ["transient"] } });
      const again = await rig.leaseOne();
      await rig.report(again, { failed: [0], errorClass: "transient", intent: "keep" });
      expect(await rig.state(id)).toBe("running");
      await rig.report(again, { failed: [1] });
      expect(await rig.get(id)).toMatchObject({
        state: "failed",
        reason: { code: "FAILURE_BUDGET" },
        counts: { failed: 3 },
      });
    },
  );

  rule("each step has its own budget", async ({ rig }) => {
    const budget = { any: { count: 1 } };
    const id = await rig.running([2], { settings: steps({ budget }, { name: "two", budget }) });
    await rig.report(await rig.leaseOne(), { failed: [0], succeeded: [1] });
    await rig.slice(id, [2]);
    await rig.report(await rig.leaseOne({ step: 1 }), { failed: [0], succeeded: [1] });
    expect(await rig.state(id)).toBe("completed_with_errors");
  });

  rule("only the canary's items are leased until the canary has passed", async ({ rig }) => {
    const id = await rig.running([2, 2, 2, 2], { settings: canary(3) });
    const first = await rig.lease({ chunksMax: 9 });
    expect(first.map(({ chunk }) => chunk)).toEqual([0, 1]);
    await rig.settle(first[0]!);
    expect(await rig.look({ chunksMax: 9 })).toMatchObject({ leased: [], nextDueInMs: null });
    const both = await rig.store.work(
      [say(first[1]!, { succeeded: [0, 1] })],
      rig.request({ chunksMax: 9 }),
    );
    expect(both.leased.map(({ batch, chunk }) => [batch, chunk])).toEqual([
      [id, 2],
      [id, 3],
    ]);
  });

  rule("the canary waits for the retries of its items", async ({ rig }) => {
    await rig.running([2, 2], { settings: canary(2) });
    await rig.report(await rig.leaseOne(), { succeeded: [0], retryInMs: { 1: 50 } });
    expect(await rig.look({ chunksMax: 9 })).toMatchObject({ leased: [], nextDueInMs: 50 });
    rig.clock.advance(50);
    await rig.settle(await rig.leaseOne());
    expect(await rig.leaseOne()).toMatchObject({ chunk: 1 });
  });

  rule("one failure too many in the canary ends the batch at once", async ({ rig }) => {
    const id = await rig.running([2, 2, 2], { settings: canary(3, 1) });
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { failed: [0], intent: "keep" });
    expect(await rig.state(id)).toBe("running");
    const last = await rig.store.work([say(two!, { failed: [1], intent: "keep" })], null);
    expect(last.ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({
      state: "failed",
      reason: { code: "CANARY_FAILED" },
      counts: { failed: 2, cancelled: 4 },
    });
    expect(await rig.settle(one!)).toBe("lost");
  });

  rule("failures after the canary has passed do not count against it", async ({ rig }) => {
    const id = await rig.running([2, 2], { settings: canary(2) });
    await rig.settle(await rig.leaseOne());
    await rig.report(await rig.leaseOne(), { failed: [0, 1] });
    expect(await rig.state(id)).toBe("completed_with_errors");
  });

  rule("a batch that is smaller than its canary is the canary", async ({ rig }) => {
    const id = await rig.running([2], { settings: canary(50) });
    await rig.settle(await rig.leaseOne());
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("the canary of an open batch is its first items", async ({ rig }) => {
    const id = await rig.running([], { settings: canary(4), open: true });
    await rig.plan(id, manifests(2));
    await rig.settle(await rig.leaseOne());
    await rig.plan(id, manifests(2, 2));
    const second = await rig.lease({ chunksMax: 9 });
    expect(second.map(({ chunk }) => chunk)).toEqual([1]);
    await rig.settle(second[0]!);
    expect(await rig.leaseOne()).toMatchObject({ chunk: 2 });
  });

  rule("a later step has its own canary", async ({ rig }) => {
    const slice = { items: 2, failuresMax: 0 };
    const settings = steps({}, { name: "two", chunkSize: 2, canary: slice });
    const id = await rig.running([3], { settings });
    await rig.report(await rig.leaseOne(), { failed: [0, 1, 2] });
    await rig.slice(id, [2, 2]);
    expect(await rig.lease({ step: 1, chunksMax: 9 })).toHaveLength(1);
  });
}
