/**
 * Reporting: an outcome counts once, a stale holder changes nothing, and a report is all or
 * nothing.
 */
import { expect } from "vitest";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { allOf, FIRST_DRIVE, LEASE_MS, type Rule, say, wordsOf } from "./rig.ts";

export function describeReporting(rule: Rule): void {
  rule("the outcomes of a settled chunk are counted", async ({ rig }) => {
    const id = await rig.running([6, 1]);
    const lease = await rig.leaseOne();
    const said = { succeeded: [0, 1, 5], skipped: [2], failed: [3, 4] };
    expect(await rig.report(lease, said)).toBe("settled");
    expect((await rig.get(id)).counts).toEqual({
      planned: 7,
      succeeded: 3,
      skipped: 1,
      failed: 2,
      cancelled: 0,
      pending: 1,
    });
  });

  for (const items of [1, 3, 4, 5, 8, 1_000, 1_001]) {
    rule(`each of ${items} items in a chunk keeps its own outcome`, async ({ rig }) => {
      const id = await rig.running([items]);
      const lease = await rig.leaseOne();
      const pick = (rest: number): number[] => allOf(lease).filter((index) => index % 4 === rest);
      const said = { succeeded: pick(1), skipped: pick(2), failed: pick(3) };
      expect(await rig.report(lease, said)).toBe("yielded");
      const { counts } = await rig.get(id);
      expect(counts).toMatchObject({
        succeeded: pick(1).length,
        skipped: pick(2).length,
        failed: pick(3).length,
        pending: pick(0).length,
      });
      expect(wordsOf(await rig.leaseOne())).toEqual(
        allOf(lease).map((index) => ["pending", "succeeded", "skipped", "failed"][index % 4]),
      );
    });
  }

  rule("a flush of partial outcomes keeps the lease", async ({ rig }) => {
    const id = await rig.running([3]);
    const lease = await rig.leaseOne();
    expect(await rig.report(lease, { succeeded: [0], intent: "keep" })).toBe("kept");
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 1, pending: 2 });
    expect(await rig.lease()).toEqual([]);
    expect(await rig.report(lease, { succeeded: [0, 1, 2], intent: "keep" })).toBe("settled");
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 3, pending: 0 });
  });

  rule("after a crash only items without a flushed outcome are leased again", async ({ rig }) => {
    await rig.running([4]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], skipped: [2], failed: [3], intent: "keep" });
    await rig.lose();
    expect(wordsOf(await rig.leaseOne())).toEqual(["succeeded", "pending", "skipped", "failed"]);
  });

  rule("a repeated report counts once", async ({ rig }) => {
    const id = await rig.running([3]);
    const lease = await rig.leaseOne();
    const flush = say(lease, {
      succeeded: [0],
      failed: [1],
      results: { 0: '"done"' },
      intent: "keep",
    });
    await rig.store.work([flush], null);
    const once = await rig.observe(id);
    rig.clock.advance(50);
    expect((await rig.store.work([flush], null)).reports).toEqual(["kept"]);
    expect((await rig.store.work([flush, flush], null)).reports).toEqual(["kept", "kept"]);
    expect(await rig.observe(id)).toEqual(once);
  });

  rule("a repeated settle or give-back is answered with a lost lease", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    const [one, two] = (await rig.lease({ chunksMax: 2 })) as [LeasedChunk, LeasedChunk];
    const settle = say(one, { succeeded: [0, 1] });
    const giveBack = say(two, { succeeded: [0] });
    expect((await rig.store.work([settle, giveBack], null)).reports).toEqual([
      "settled",
      "yielded",
    ]);
    const once = await rig.observe(id);
    expect((await rig.store.work([settle, giveBack], null)).reports).toEqual(["lost", "lost"]);
    expect(await rig.observe(id)).toEqual(once);
  });

  rule("a repeated failure counts one attempt", async ({ rig }) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    const flush = say(lease, { retryInMs: { 0: 100 }, intent: "keep" });
    await rig.store.work([flush], null);
    await rig.store.work([flush], null);
    await rig.report(lease, { intent: "yield" });
    rig.clock.advance(100);
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 1, deaths: 0, dueInMs: 0, ...FIRST_DRIVE },
    ]);
  });

  rule("the first outcome of an item stands, whatever is reported later", async ({ rig }) => {
    const id = await rig.running([4]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], skipped: [1], failed: [2], intent: "keep" });
    const before = await rig.observe(id);
    const contrary = {
      failed: [0],
      succeeded: [1, 2],
      results: { 2: "7" },
      intent: "keep",
    } as const;
    expect(await rig.report(lease, contrary)).toBe("kept");
    expect(await rig.observe(id)).toEqual(before);
    await rig.report(lease, { skipped: [0, 1, 2] });
    expect(wordsOf(await rig.leaseOne())).toEqual(["succeeded", "skipped", "failed", "pending"]);
  });

  rule("a report that omits an earlier outcome does not remove it", async ({ rig }) => {
    const id = await rig.running([3]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0, 1], intent: "keep" });
    await rig.report(lease, { skipped: [2], intent: "keep" });
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, skipped: 1, pending: 0 });
  });

  rule("a report with another fence is lost and changes nothing", async ({ rig }) => {
    const id = await rig.running([2]);
    const lease = await rig.leaseOne();
    const before = await rig.observe(id);
    for (const fence of [lease.fence - 1, lease.fence + 1, 0, -1]) {
      const said = { succeeded: [0], failed: [1], results: { 0: "1" } };
      expect(await rig.report({ ...lease, fence }, said)).toBe("lost");
    }
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.settle(lease)).toBe("settled");
  });

  rule("a report on an unknown chunk or batch is lost", async ({ rig }) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    expect(await rig.settle({ ...lease, chunk: 1 })).toBe("lost");
    expect(await rig.settle({ ...lease, batch: "unknown" })).toBe("lost");
  });

  rule("a chunk that was never leased cannot be settled", async ({ rig }) => {
    const id = await rig.running([1, 1]);
    const lease = await rig.leaseOne();
    expect(await rig.settle({ ...lease, chunk: 1, fence: 0 })).toBe("lost");
    expect((await rig.get(id)).counts.pending).toBe(2);
  });

  rule("a chunk whose lease was swept cannot be settled by its old worker", async ({ rig }) => {
    const id = await rig.running([2]);
    const old = await rig.leaseOne();
    await rig.lose();
    const before = await rig.observe(id);
    const said = { succeeded: [0], failed: [1], results: { 0: "1" } };
    expect(await rig.report(old, said)).toBe("lost");
    const successor = await rig.leaseOne();
    expect(await rig.report(old, said)).toBe("lost");
    expect(await rig.report(old, { ...said, intent: "keep" })).toBe("lost");
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.settle(successor)).toBe("settled");
    expect(await rig.report(old, said)).toBe("lost");
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, failed: 0 });
  });

  rule(
    "a late report counts while no other worker has leased the chunk, because the fence decides",
    async ({ rig }) => {
      await rig.running([1]);
      const lease = await rig.leaseOne();
      rig.clock.advance(LEASE_MS * 10);
      expect(await rig.settle(lease)).toBe("settled");
    },
  );

  rule(
    "a give-back counts no death: the chunk is due at once and does not run guarded",
    async ({ rig }) => {
      await rig.running([2]);
      for (let round = 0; round < 5; round++) {
        const lease = await rig.leaseOne();
        expect(lease).toMatchObject({ guarded: false, histories: [] });
        expect(await rig.report(lease, { intent: "yield" })).toBe("yielded");
      }
    },
  );

  rule("an item without attempts left is a dead letter with its cause", async ({ rig }) => {
    const id = await rig.running([1, 3]);
    const [, lease] = (await rig.lease({ chunksMax: 2 })) as [LeasedChunk, LeasedChunk];
    rig.clock.advance(77);
    await rig.report(lease, { succeeded: [0, 1], failed: [2], attempts: 4 });
    expect(await rig.letters(id)).toEqual([
      {
        step: 0,
        item: 3,
        key: "key-3",
        attempts: 4,
        deaths: 0,
        errorClass: "permanent",
        code: "BAD_INPUT",
        message: "item 3 failed",
        failedAt: rig.clock.wallMs(),
        drive: 1,
        discarded: null,
        edited: false,
      },
    ]);
  });

  rule(
    "an item that failed and then succeeded leaves no dead letter and no history",
    async ({ rig }) => {
      const id = await rig.running([2]);
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 10, 1: 10 } });
      rig.clock.advance(10);
      await rig.report(await rig.leaseOne(), { succeeded: [0] });
      const last = await rig.leaseOne();
      expect(last.histories).toEqual([
        { index: 1, attempts: 1, deaths: 0, dueInMs: 0, ...FIRST_DRIVE },
      ]);
      await rig.settle(last);
      expect(await rig.letters(id)).toEqual([]);
      expect((await rig.get(id)).state).toBe("succeeded");
    },
  );

  rule("attempts are stored as the worker counts them", async ({ rig }) => {
    await rig.running([1]);
    for (const attempts of [1, 2, 3]) {
      const lease = await rig.leaseOne();
      expect(lease.histories[0]?.attempts ?? 0).toBe(attempts - 1);
      await rig.report(lease, { retryInMs: { 0: 0 }, attempts });
    }
  });

  rule("results of an item are stored once, with its key", async ({ rig }) => {
    const id = await rig.running([3]);
    const lease = await rig.leaseOne();
    const first = { succeeded: [0], results: { 0: '{"a":1}' }, intent: "keep" } as const;
    await rig.report(lease, first);
    await rig.report(lease, { ...first, results: { 0: '"other"' } });
    await rig.report(lease, { succeeded: [0, 1], results: { 0: "3", 1: "2" } });
    expect(await rig.results(id)).toEqual([
      { step: 0, item: 0, key: "key-0", value: '{"a":1}' },
      { step: 0, item: 1, key: "key-1", value: "2" },
    ]);
  });

  rule("only an item that succeeded can have a result", async ({ rig }) => {
    const id = await rig.running([4]);
    await rig.report(await rig.leaseOne(), {
      succeeded: [0],
      skipped: [1],
      failed: [2],
      results: { 0: "0", 1: "1", 2: "2", 3: "3" },
    });
    expect(await rig.results(id)).toMatchObject([{ item: 0 }]);
  });

  rule(
    "several reports are answered in order, and a lost one does not stop the others",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1]);
      const [one, two, three] = (await rig.lease({ chunksMax: 3 })) as [
        LeasedChunk,
        LeasedChunk,
        LeasedChunk,
      ];
      const done = { succeeded: [0] };
      const stale = say({ ...two, fence: 99 }, done);
      const reports = [say(three, done), stale, say(one, done), say(two, { intent: "keep" })];
      expect((await rig.store.work(reports, null)).reports).toEqual([
        "settled",
        "lost",
        "settled",
        "kept",
      ]);
      expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, pending: 1 });
    },
  );

  rule("reports on several batches share one commit", async ({ rig }) => {
    const ids = [await rig.running([1]), await rig.running([2]), await rig.running([1])];
    const leased = await rig.lease({ chunksMax: 3 });
    const { ended } = await rig.store.work(
      leased.map((lease) => say(lease, { succeeded: [0] })),
      null,
    );
    expect(ended).toEqual([ids[0], ids[2]]);
  });

  rule("text with any characters is stored unchanged", async ({ rig }) => {
    const id = await rig.running([2]);
    const lease = await rig.leaseOne();
    const odd = "naïve 🚚 \u0000 \" ' ; -- \u2028 </script> %s";
    const report = say(lease, { succeeded: [0], failed: [1], results: { 0: JSON.stringify(odd) } });
    const [failure] = report.failures;
    const [result] = report.results;
    await rig.store.work(
      [
        {
          ...report,
          failures: [{ ...failure!, key: odd, code: odd, message: odd }],
          results: [{ ...result!, key: odd }],
        },
      ],
      null,
    );
    expect(await rig.letters(id)).toMatchObject([{ key: odd, code: odd, message: odd }]);
    expect(await rig.results(id)).toMatchObject([{ key: odd, value: JSON.stringify(odd) }]);
  });

  rule("the result and the dead letter of an item without a key have no key", async ({ rig }) => {
    const id = await rig.running([2]);
    const report = say(await rig.leaseOne(), { succeeded: [0], failed: [1], results: { 0: "0" } });
    const bare = <T>(one: T): T => ({ ...one, key: null });
    const reports = [
      { ...report, failures: report.failures.map(bare), results: report.results.map(bare) },
    ];
    await rig.store.work(reports, null);
    expect(await rig.letters(id)).toMatchObject([{ item: 1, key: null }]);
    expect(await rig.results(id)).toMatchObject([{ item: 0, key: null }]);
  });
}
