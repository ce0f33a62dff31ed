/**
 * Redriving: dead letters run again in a new drive, on record, and the batch ends truthfully again.
 */
import { expect } from "vitest";
import type { DeadLetterFilter } from "../../src/core/items/redrive.ts";
import { manifests, type Rig, type Rule, steps } from "./rig.ts";

/**
 * Two chunks of three items: in each, the first fails permanently, the second transiently, the
 * third succeeds.
 */
export async function runBadly(rig: Rig): Promise<string> {
  const id = await rig.running([3, 3]);
  for (const lease of await rig.lease({ chunksMax: 2 })) {
    await rig.report(lease, { failed: [0], attempts: 1, intent: "keep" });
    const code = lease.chunk === 0 ? "ECONNRESET" : "ETIMEDOUT";
    await rig.report(lease, {
      failed: [1],
      succeeded: [2],
      errorClass: "transient",
      code,
      attempts: 4,
    });
  }
  expect(await rig.state(id)).toBe("completed_with_errors");
  return id;
}

export function describeRedriving(rule: Rule): void {
  describeChoosing(rule);
  describeRefusals(rule);
}

/** More dead letters than a store reads at once, in three chunks. The middle chunk has none. */
async function failMany(rig: Rig, maxRedrives: number): Promise<string> {
  const id = await rig.running([1_500, 3, 1_500], {
    settings: steps({ name: "one", maxRedrives }),
  });
  const all = Array.from({ length: 1_500 }, (_, index) => index);
  for (const lease of await rig.lease({ chunksMax: 3, itemsMax: 9_999 })) {
    if (lease.chunk === 1) await rig.settle(lease);
    else await rig.report(lease, { failed: all, errorClass: "transient", attempts: 4 });
  }
  return id;
}

function describeChoosing(rule: Rule): void {
  rule("a pass redrives all dead letters, however many there are", async ({ rig }) => {
    const id = await failMany(rig, 1);
    expect(await rig.get(id)).toMatchObject({
      state: "running",
      counts: { failed: 0, pending: 3_000, succeeded: 3 },
    });
    for (const lease of await rig.lease({ chunksMax: 3, itemsMax: 9_999 })) await rig.settle(lease);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "a redrive by hand takes all dead letters, or as many as the ceiling allows",
    async ({ rig }) => {
      const id = await failMany(rig, 0);
      expect(await rig.redrive(id, { ceiling: 2_001 })).toMatchObject({
        redriven: 2_001,
        left: 999,
      });
      expect((await rig.letters(id, { limit: 1 })).map(({ item }) => item)).toEqual([2_004]);
      expect(await rig.redrive(id, {})).toMatchObject({ redriven: 999, left: 0 });
      for (const lease of await rig.lease({ chunksMax: 3, itemsMax: 9_999 }))
        await rig.settle(lease);
      expect(await rig.state(id)).toBe("succeeded");
    },
  );

  for (const { what, filter, items } of [
    { what: "everything", filter: {}, items: [0, 1, 3, 4] },
    { what: "a step", filter: { step: 0 }, items: [0, 1, 3, 4] },
    { what: "items", filter: { items: [4, 0, 2] }, items: [0, 4] },
    { what: "keys", filter: { keys: ["key-1", "key-3", "key-9"] }, items: [1, 3] },
    { what: "codes", filter: { codes: ["ETIMEDOUT", "BAD_INPUT"] }, items: [0, 3, 4] },
    { what: "classes", filter: { classes: ["transient"] }, items: [1, 4] },
    { what: "several fields", filter: { classes: ["permanent"], items: [0, 1] }, items: [0] },
  ] satisfies { what: string; filter: DeadLetterFilter; items: number[] }[]) {
    rule(`a filter by ${what} takes exactly the dead letters that match`, async ({ rig }) => {
      const id = await runBadly(rig);
      expect((await rig.letters(id, { filter })).map(({ item }) => item)).toEqual(items);
      expect(await rig.redrive(id, { filter })).toMatchObject({
        kind: "done",
        redriven: items.length,
        revived: 0,
        busy: 0,
        left: 0,
        batch: { counts: { failed: 4 - items.length, pending: items.length } },
      });
      const leased = await rig.lease({ chunksMax: 9 });
      const pending = leased.flatMap(({ start, histories }) =>
        histories.map(({ index }) => start + index),
      );
      expect(pending).toEqual(items);
      expect((await rig.letters(id)).map(({ item }) => item)).toEqual(
        [0, 1, 3, 4].filter((item) => !items.includes(item)),
      );
    });
  }

  rule("a ceiling takes the first dead letters and returns the number left", async ({ rig }) => {
    const id = await runBadly(rig);
    expect(await rig.redrive(id, { ceiling: 3 })).toMatchObject({ redriven: 3, left: 1 });
    expect((await rig.letters(id)).map(({ item }) => item)).toEqual([4]);
  });

  rule("a rate spreads the due times of the items", async ({ rig }) => {
    const id = await runBadly(rig);
    await rig.redrive(id, { perSecond: 4 });
    const first = await rig.leaseOne();
    expect(first.histories.map(({ index, dueInMs }) => [index, dueInMs])).toEqual([
      [0, 0],
      [1, 250],
    ]);
    expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 500 });
    rig.clock.advance(500);
    const second = await rig.leaseOne();
    expect(second.histories.map(({ index, dueInMs }) => [index, dueInMs])).toEqual([
      [0, 0],
      [1, 250],
    ]);
  });

  rule(
    "a redriven item does not delay an item of its chunk that is due earlier",
    async ({ rig }) => {
      const id = await rig.running([1, 2]);
      const [one, two] = await rig.lease({ chunksMax: 2 });
      await rig.report(one!, { failed: [0] });
      await rig.report(two!, { failed: [0], retryInMs: { 1: 100 } });
      await rig.redrive(id, { perSecond: 1 });
      expect(await rig.leaseOne()).toMatchObject({ chunk: 0 });
      expect((await rig.look()).nextDueInMs).toBe(100);
      rig.clock.advance(100);
      expect((await rig.leaseOne()).histories).toMatchObject([
        { index: 0, dueInMs: 900, drive: 2 },
        { index: 1, dueInMs: 0, drive: 1 },
      ]);
    },
  );

  rule("a dry run counts and changes nothing", async ({ rig }) => {
    const id = await runBadly(rig);
    const before = await rig.observe(id);
    expect(await rig.redrive(id, { dryRun: true, ceiling: 1 })).toEqual({
      kind: "done",
      batch: before.batch,
      redriven: 1,
      revived: 0,
      busy: 0,
      left: 3,
    });
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.lease()).toEqual([]);
  });

  rule("dead letters in a running chunk are busy and are not redriven", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    const [busy, done] = await rig.lease({ chunksMax: 2 });
    await rig.report(busy!, { failed: [0], intent: "keep" });
    await rig.report(done!, { failed: [0, 1] });
    expect(await rig.redrive(id)).toMatchObject({
      kind: "done",
      redriven: 2,
      busy: 1,
      left: 0,
      batch: { state: "running", drive: 2 },
    });
    expect(await rig.redrive(id)).toMatchObject({ kind: "done", redriven: 0, busy: 1 });
    expect((await rig.get(id)).drive).toBe(2);
    expect(await rig.leaseOne()).toMatchObject({ chunk: 1, fence: 2 });
    await rig.report(busy!, { succeeded: [1] });
    expect(await rig.redrive(id)).toMatchObject({ redriven: 1, busy: 0, batch: { drive: 3 } });
  });

  rule("discarded dead letters are not redriven", async ({ rig }) => {
    const id = await runBadly(rig);
    await rig.discard(id, { items: [1, 3] });
    expect(await rig.redrive(id)).toMatchObject({ redriven: 2, left: 0 });
    await rig.runAll(id, (lease) => ({ succeeded: lease.histories.map(({ index }) => index) }));
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 4, failed: 2 },
    });
  });

  rule("a redriven item starts with no attempts and keeps its checkpoint", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { checkpoints: { 0: "fetched" }, intent: "keep" });
    await rig.report(lease, { failed: [0], attempts: 4, errorClass: "transient" });
    await rig.redrive(id);
    expect((await rig.leaseOne()).histories).toEqual([
      {
        index: 0,
        attempts: 0,
        deaths: 0,
        dueInMs: 0,
        checkpoint: { name: "fetched", data: '"fetched"' },
        drive: 2,
      },
    ]);
  });

  rule("a convicted item is no longer a suspect when it is redriven", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.leaseOne();
    await rig.lose();
    for (let deaths = 2; deaths <= 3; deaths++) {
      await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
      await rig.lose();
    }
    expect(await rig.letters(id)).toMatchObject([{ code: "POISON", drive: 1 }]);
    await rig.redrive(id);
    const lease = await rig.leaseOne();
    expect(lease.histories).toMatchObject([{ deaths: 0, attempts: 0, drive: 2 }]);
    await rig.settle(lease);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule("results of a redrive carry the number of that drive", async ({ rig }) => {
    const id = await runBadly(rig);
    await rig.redrive(id, { filter: { items: [0, 4] } });
    await rig.runAll(id, (lease) => {
      const done = lease.histories.map(({ index }) => index);
      return { succeeded: done, results: Object.fromEntries(done.map((n) => [n, `${n}`])) };
    });
    expect((await rig.results(id, { sinceDrive: 2 })).map(({ item }) => item)).toEqual([0, 4]);
    expect(await rig.results(id, { sinceDrive: 3 })).toEqual([]);
    expect(await rig.results(id, { sinceDrive: 2, afterItem: 0, limit: 1 })).toMatchObject([
      { item: 4 },
    ]);
  });
}

function describeRefusals(rule: Rule): void {
  rule("a redrive that matches no dead letter is refused", async ({ rig }) => {
    const fine = await rig.running([1]);
    expect(await rig.redrive(fine)).toMatchObject({ kind: "refused", why: "no_dead_letters" });
    await rig.settle(await rig.leaseOne());
    const before = await rig.observe(fine);
    expect(await rig.redrive(fine)).toEqual({
      kind: "refused",
      why: "no_dead_letters",
      batch: before.batch,
    });
    expect(await rig.observe(fine)).toEqual(before);
    const bad = await runBadly(rig);
    expect(await rig.redrive(bad, { filter: { codes: ["NEVER"] } })).toMatchObject({
      why: "no_dead_letters",
    });
    await rig.discard(bad);
    expect(await rig.redrive(bad)).toMatchObject({ why: "no_dead_letters" });
  });

  rule("a redrive of a batch that is being cancelled is refused", async ({ rig }) => {
    const id = await rig.running([1, 1]);
    const [one] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { failed: [0] });
    await rig.cancel(id, "drain");
    expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "cancelling" });
  });

  rule(
    "a redrive of a batch that stopped early is refused unless it asks to revive the rest",
    async ({ rig }) => {
      const id = await rig.running([1, 1]);
      await rig.report(await rig.leaseOne(), { failed: [0] });
      await rig.cancel(id);
      const before = await rig.observe(id);
      expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "stopped_early" });
      expect(await rig.observe(id)).toEqual(before);
    },
  );

  rule(
    "a redrive of a batch that stopped before its plan was complete is refused",
    async ({ rig }) => {
      for (const planned of [false, true]) {
        const id = await rig.slicing();
        if (planned) await rig.plan(id, manifests(2));
        await rig.cancel(id);
        const refused = { kind: "refused", why: "never_planned" };
        expect(await rig.redrive(id, { withCancelled: true })).toMatchObject(refused);
      }
      const { id } = await rig.submit();
      await rig.cancel(id);
      expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
        why: "never_planned",
      });
    },
  );

  rule(
    "dead letters of an earlier step cannot be redriven while a later step runs",
    async ({ rig }) => {
      const id = await rig.running([1], { settings: steps({}, { name: "two" }) });
      await rig.report(await rig.leaseOne(), { failed: [0] });
      expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "not_running" });
      await rig.slice(id, [1, 1]);
      expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "step_is_over" });
      await rig.report(await rig.leaseOne({ step: 1 }), { failed: [0] });
      expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "step_is_over" });
      expect(await rig.redrive(id, { filter: { step: 1 } })).toMatchObject({
        kind: "done",
        redriven: 1,
      });
    },
  );

  rule(
    "a batch that waits for its turn or is being sliced has nothing to redrive",
    async ({ rig }) => {
      const { id } = await rig.submit();
      expect(await rig.redrive(id)).toMatchObject({ why: "not_running" });
      await rig.store.startSlicing(id, false);
      expect(await rig.redrive(id)).toMatchObject({ why: "not_running" });
    },
  );

  rule(
    "more dead letters of a reopened batch can be redriven while it waits for its turn",
    async ({ rig }) => {
      const lane = "main";
      const id = await rig.running([2], { lane });
      await rig.report(await rig.leaseOne(), { failed: [0, 1] });
      await rig.running([1], { lane });
      await rig.redrive(id, { filter: { items: [0] } });
      expect(await rig.redrive(id)).toMatchObject({
        kind: "done",
        redriven: 1,
        batch: { state: "ready", drive: 3, counts: { pending: 2 } },
      });
      await rig.settle(await rig.leaseOne());
      expect(await rig.leaseOne()).toMatchObject({
        batch: id,
        histories: [
          { index: 0, drive: 2 },
          { index: 1, drive: 3 },
        ],
      });
    },
  );

  rule("the record of an act by hand contains who acted and why", async ({ rig }) => {
    const id = await runBadly(rig);
    await rig.redrive(id, { by: "ann", why: "the portal is back" });
    expect(await rig.recorded(id, "dead_letters.redriven")).toEqual([
      { drive: 2, items: 4, revived: 0, by: "ann", why: "the portal is back" },
    ]);
  });
}
