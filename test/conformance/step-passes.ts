/** What happens to a step's failures: automatic passes, and how rescued items reach later steps. */
import { expect } from "vitest";
import { allOf, LEASE_MS, manifests, type Rig, type Rule, say, steps } from "./rig.ts";

const TWO = { settings: steps({ name: "one" }, { name: "two" }) };
const CARRYING = { settings: steps({ name: "one" }, { name: "two", carries: true }) };
const TRANSIENT = { errorClass: "transient", code: "ECONNRESET" } as const;

/** Fails every due item with a transient error. No item succeeds. */
async function failAll(rig: Rig, id: string, step = 0): Promise<number> {
  return rig.runAll(id, (lease) => ({ failed: allOf(lease), ...TRANSIENT }), step);
}

export function describeStepPasses(rule: Rule): void {
  describePasses(rule);
  describeCarrying(rule);
}

function describePasses(rule: Rule): void {
  for (const maxRedrives of [0, 1, 3]) {
    rule(`dead letters get exactly ${maxRedrives} automatic passes`, async ({ rig }) => {
      const id = await rig.running([2], { settings: steps({ maxRedrives }) });
      for (let pass = 0; pass <= maxRedrives; pass++) {
        const [lease] = await rig.lease({ batch: id });
        expect(lease).toMatchObject({ final: pass === maxRedrives });
        expect(lease?.histories).toEqual(
          pass === 0
            ? []
            : [0, 1].map((index) => ({
                index,
                attempts: 0,
                deaths: 0,
                dueInMs: 0,
                checkpoint: null,
                drive: pass + 1,
              })),
        );
        await rig.report(lease!, { failed: [0, 1], attempts: 4, ...TRANSIENT });
      }
      expect(await rig.get(id)).toMatchObject({
        state: "completed_with_errors",
        drive: maxRedrives + 1,
        counts: { failed: 2, pending: 0 },
        steps: [{ passes: maxRedrives }],
      });
      expect(await rig.recorded(id, "dead_letters.redriven")).toEqual(
        Array.from({ length: maxRedrives }, (_, n) => ({
          step: 0,
          drive: n + 2,
          items: 2,
          pass: n + 1,
          final: n + 1 === maxRedrives,
          by: "engine",
        })),
      );
      expect(await rig.letters(id)).toMatchObject([
        { item: 0, attempts: 4, drive: maxRedrives + 1 },
        { item: 1, attempts: 4, drive: maxRedrives + 1 },
      ]);
      expect(await rig.recorded(id, "batch.ended")).toHaveLength(1);
    });
  }

  rule("the commit of the step's last item begins a pass that is due at once", async ({ rig }) => {
    const id = await rig.running([1, 1], { settings: steps({ maxRedrives: 1 }) });
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { failed: [0], ...TRANSIENT });
    expect(await rig.recordTypes(id)).not.toContain("dead_letters.redriven");
    expect(await rig.lease()).toEqual([]);
    const answer = await rig.store.work([say(two!, { succeeded: [0] })], rig.request());
    expect(answer).toMatchObject({
      ended: [],
      leased: [{ chunk: 0, fence: 2, final: true, guarded: false }],
    });
    await rig.settle(answer.leased[0]!);
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", drive: 2 });
  });

  rule("a pass leaves out items that could not succeed without help", async ({ rig }) => {
    const id = await rig.running([6, 1], { settings: steps({ maxRedrives: 2 }) });
    const [lease, poison] = await rig.lease({ chunksMax: 2 });
    await rig.report(lease!, { failed: [0], intent: "keep" });
    await rig.report(lease!, { failed: [1], ...TRANSIENT, code: "POISON", intent: "keep" });
    await rig.report(lease!, { failed: [2], ...TRANSIENT, code: "STALLED", intent: "keep" });
    await rig.report(lease!, {
      failed: [3],
      errorClass: "unexpected",
      code: "LOST",
      intent: "keep",
    });
    await rig.report(lease!, { failed: [4], errorClass: "unexpected", code: "E", intent: "keep" });
    await rig.report(lease!, { failed: [5], ...TRANSIENT });
    await rig.discard(id, { items: [5] });
    await rig.settle(poison!);
    expect(await rig.recorded(id, "dead_letters.redriven")).toMatchObject([{ items: 1 }]);
    const again = await rig.leaseOne();
    expect(again.histories.map(({ index }) => index)).toEqual([4]);
    await rig.report(again, { succeeded: [4] });
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 2, failed: 5 },
    });
  });

  rule("an open batch has its pass when it is sealed, and not before", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({ maxRedrives: 1 }), open: true });
    await failAll(rig, id);
    expect(await rig.lease()).toEqual([]);
    expect((await rig.store.seal(id)).batch).toMatchObject({
      state: "running",
      drive: 2,
      counts: { failed: 0, pending: 1 },
    });
    await rig.settle(await rig.leaseOne());
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("passes come before the next step, and each step has its own", async ({ rig }) => {
    const settings = steps({ maxRedrives: 1 }, { name: "two", maxRedrives: 2 });
    const id = await rig.running([1], { settings });
    await failAll(rig, id);
    expect(await rig.get(id)).toMatchObject({ state: "running", step: 0 });
    await failAll(rig, id);
    await rig.slice(id, [1]);
    for (let pass = 0; pass < 3; pass++) await failAll(rig, id, 1);
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      drive: 4,
      steps: [{ passes: 1 }, { passes: 2 }],
    });
    expect(await rig.recorded(id, "dead_letters.redriven")).toMatchObject([
      { step: 0, drive: 2, pass: 1, final: true },
      { step: 1, drive: 3, pass: 1, final: false },
      { step: 1, drive: 4, pass: 2, final: true },
    ]);
  });

  rule("a pass begins after a lost lease like after a report", async ({ rig }) => {
    const id = await rig.running([2], { settings: steps({ maxRedrives: 1 }) });
    await rig.leaseOne();
    await rig.lose();
    await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
    await rig.lose();
    const lease = await rig.leaseOne();
    await rig.report(lease, { failed: [1], ...TRANSIENT, starting: [0], intent: "keep" });
    rig.clock.advance(LEASE_MS);
    expect(await rig.sweep()).toMatchObject({ lostLeases: 1, ended: [] });
    expect(await rig.get(id)).toMatchObject({ drive: 2, counts: { failed: 1, pending: 1 } });
    expect(await rig.leaseOne()).toMatchObject({
      final: true,
      histories: [{ index: 1, drive: 2 }],
    });
  });
}

/** An ended batch of two steps. An item of the first step failed. */
async function endWithLoss(rig: Rig, settings = CARRYING): Promise<string> {
  const id = await rig.running([2], settings);
  await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1], results: { 0: "10" } });
  await rig.slice(id, [1]);
  await rig.settle(await rig.leaseOne({ step: 1 }));
  expect(await rig.state(id)).toBe("completed_with_errors");
  return id;
}

function describeCarrying(rule: Rule): void {
  rule(
    "an item that a pass rescued goes on to a later step that carries results",
    async ({ rig }) => {
      const id = await endWithLoss(rig);
      expect(await rig.redrive(id)).toMatchObject({ batch: { step: 0, drive: 2 } });
      await rig.report(await rig.leaseOne(), { succeeded: [1], results: { 1: "11" } });
      expect(await rig.get(id)).toMatchObject({
        state: "slicing",
        step: 1,
        chunks: 1,
        sinceDrive: 2,
      });
      expect(await rig.results(id, { sinceDrive: 2 })).toMatchObject([{ item: 1, value: "11" }]);
      expect(await rig.results(id)).toHaveLength(2);
      await rig.slice(id, [1]);
      expect(await rig.leaseOne({ step: 1 })).toMatchObject({
        chunk: 1,
        start: 1,
        end: 2,
        fence: 1,
      });
      expect((await rig.get(id)).steps).toMatchObject([
        { counts: { planned: 2, succeeded: 2 } },
        { counts: { planned: 2, succeeded: 1, pending: 1 }, chunks: 2 },
      ]);
    },
  );

  rule("slicing a step afresh keeps the plan of earlier drives", async ({ rig }) => {
    const id = await endWithLoss(rig);
    await rig.redrive(id);
    await rig.report(await rig.leaseOne(), { succeeded: [1] });
    await rig.store.startSlicing(id, false);
    await rig.plan(id, manifests(3));
    expect((await rig.store.startSlicing(id, true)).batch).toMatchObject({
      chunks: 1,
      counts: { planned: 3, succeeded: 3, pending: 0 },
    });
    await rig.slice(id, [1]);
    await rig.settle(await rig.leaseOne({ step: 1 }));
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", counts: { planned: 4 } });
  });

  rule("a redrive does not run a later step with its own source again", async ({ rig }) => {
    const id = await endWithLoss(rig, TWO);
    await rig.redrive(id);
    const last = await rig.store.work([say(await rig.leaseOne(), { succeeded: [1] })], null);
    expect(last.ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", counts: { planned: 3 } });
  });

  rule("dead letters of two steps that are redriven together run step by step", async ({ rig }) => {
    for (const settings of [TWO, CARRYING]) {
      const id = await rig.running([1], settings);
      await failAll(rig, id);
      await rig.slice(id, [1]);
      await failAll(rig, id, 1);
      expect(await rig.redrive(id)).toMatchObject({ redriven: 2, batch: { step: 0, drive: 2 } });
      expect(await rig.lease({ batch: id, step: 1 })).toEqual([]);
      await rig.settle(await rig.leaseOne({ batch: id }));
      if (settings === CARRYING) await rig.slice(id, [1]);
      const rest = settings === CARRYING ? 2 : 1;
      expect(await rig.runAll(id, (lease) => ({ succeeded: allOf(lease) }), 1)).toBe(rest);
      expect(await rig.state(id)).toBe("succeeded");
      expect(await rig.recorded(id, "batch.ended")).toMatchObject([{ drive: 1 }, { drive: 2 }]);
    }
  });

  rule(
    "a batch that was stopped while its rescued items were planned cannot be revived",
    async ({ rig }) => {
      const id = await endWithLoss(rig);
      await rig.redrive(id);
      await rig.report(await rig.leaseOne(), { succeeded: [1] });
      await rig.store.startSlicing(id, false);
      await rig.plan(id, manifests(1));
      await rig.cancel(id);
      expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
        kind: "refused",
        why: "never_planned",
      });
    },
  );
}
