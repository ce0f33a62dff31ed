/** Leasing: which worker gets which chunks, in which order, how many, and when the next are due. */
import { expect } from "vitest";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { FIRST_DRIVE, LEASE_MS, manifests, type Rule, say, wordsOf } from "./rig.ts";
import { NO_PERMITS } from "../support/permits.ts";

const places = (leased: readonly LeasedChunk[]): string[] =>
  leased.map(({ batch, chunk }) => `${batch}/${chunk}`);

export function describeLeasing(rule: Rule): void {
  rule("a chunk that never ran is leased whole, with fence 1", async ({ rig }) => {
    const id = await rig.running([3]);
    expect(await rig.look()).toEqual({
      reports: [],
      leased: [
        {
          batch: id,
          step: 0,
          chunk: 0,
          fence: 1,
          start: 0,
          end: 3,
          locator: null,
          outcomes: new Uint8Array(1),
          histories: [],
          overrides: [],
          guarded: false,
          final: true,
        },
      ],
      nextDueInMs: null,
      ended: [],
      permits: NO_PERMITS,
    });
  });

  rule("a leased chunk is not leased to another worker", async ({ rig }) => {
    await rig.running([1, 1, 1]);
    const seen = [...(await rig.lease()), ...(await rig.lease()), ...(await rig.lease())];
    expect(seen.map(({ chunk }) => chunk)).toEqual([0, 1, 2]);
    expect(await rig.lease()).toEqual([]);
  });

  rule("every lease of a chunk has a higher fence", async ({ rig }) => {
    await rig.running([2]);
    const fences: number[] = [];
    for (let round = 0; round < 4; round++) {
      const lease = await rig.leaseOne();
      fences.push(lease.fence);
      if (round % 2 === 0) await rig.lose();
      else await rig.report(lease, { intent: "yield" });
    }
    expect(fences).toEqual(fences.toSorted((a, b) => a - b));
    expect(new Set(fences).size).toBe(4);
  });

  for (const { itemsMax, chunksMax, granted } of [
    { itemsMax: 1, chunksMax: 10, granted: 1 },
    { itemsMax: 4, chunksMax: 10, granted: 1 },
    { itemsMax: 5, chunksMax: 10, granted: 2 },
    { itemsMax: 8, chunksMax: 10, granted: 2 },
    { itemsMax: 9, chunksMax: 10, granted: 3 },
    { itemsMax: 1_000, chunksMax: 10, granted: 5 },
    { itemsMax: 1_000, chunksMax: 3, granted: 3 },
    { itemsMax: 0, chunksMax: 10, granted: 1 },
  ]) {
    rule(
      `at most ${itemsMax} items and ${chunksMax} chunks grant ${granted} of five chunks of four items`,
      async ({ rig }) => {
        await rig.running([4, 4, 4, 4, 4]);
        const leased = await rig.lease({ itemsMax, chunksMax });
        expect(leased.map(({ chunk }) => chunk)).toEqual([0, 1, 2, 3, 4].slice(0, granted));
      },
    );
  }

  rule("the limits apply to retries, fresh chunks and batches together", async ({ rig }) => {
    const one = await rig.running([2, 2, 2]);
    const two = await rig.running([2, 2]);
    await rig.report(await rig.leaseOne(), {});
    expect(places(await rig.lease({ itemsMax: 7, chunksMax: 9 }))).toEqual([
      // The lane that was served last comes after a lane that was not served.
      `${two}/0`,
      `${two}/1`,
      `${one}/0`,
      `${one}/1`,
    ]);
    expect(places(await rig.lease({ itemsMax: 7, chunksMax: 9 }))).toEqual([`${one}/2`]);
  });

  rule("batches are leased in the order of their submission", async ({ rig }) => {
    const early = await rig.slicing();
    const late = await rig.running([1]);
    await rig.plan(early, manifests(1));
    await rig.finishSlicing(early, 1);
    expect(places(await rig.lease({ chunksMax: 2 }))).toEqual([`${early}/0`, `${late}/0`]);
  });

  rule(
    "the order of the requested versions does not change the order of batches",
    async ({ rig }) => {
      const ids = [
        await rig.running([1], { version: "1" }),
        await rig.running([1], { version: "2" }),
        await rig.running([1], { version: "1" }),
      ];
      const leased = await rig.lease({ versions: ["2", "1"], chunksMax: 9 });
      expect(places(leased)).toEqual(ids.map((id) => `${id}/0`));
    },
  );

  rule(
    "retries of a batch are leased before fresh chunks, the longest due first",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1, 1, 1]);
      const [a, b, c] = (await rig.lease({ chunksMax: 3 })) as [
        LeasedChunk,
        LeasedChunk,
        LeasedChunk,
      ];
      await rig.report(a, { retryInMs: { 0: 300 } });
      await rig.report(b, { retryInMs: { 0: 100 } });
      await rig.report(c, { retryInMs: { 0: 200 } });
      rig.clock.advance(300);
      expect(places(await rig.lease({ chunksMax: 9 }))).toEqual(
        [1, 2, 0, 3, 4].map((chunk) => `${id}/${chunk}`),
      );
    },
  );

  rule(
    "retries that are due at the same time are leased in the order of their chunks",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1]);
      const leased = await rig.lease({ chunksMax: 3 });
      await rig.store.work(
        leased.toReversed().map((lease) => say(lease, {})),
        null,
      );
      expect(places(await rig.lease({ chunksMax: 3 }))).toEqual([`${id}/0`, `${id}/1`, `${id}/2`]);
    },
  );

  rule("a worker leases only versions that it accepts", async ({ rig }) => {
    await rig.running([1], { version: "1" });
    const two = await rig.running([1], { version: "2" });
    expect(await rig.lease({ versions: ["3"], chunksMax: 9 })).toEqual([]);
    expect(await rig.lease({ versions: [], chunksMax: 9 })).toEqual([]);
    expect(places(await rig.lease({ versions: ["2", "3"], chunksMax: 9 }))).toEqual([`${two}/0`]);
  });

  rule("a version that is requested twice grants each chunk once", async ({ rig }) => {
    const id = await rig.running([1, 1]);
    const leased = await rig.lease({ versions: ["1", "1"], chunksMax: 9 });
    expect(places(leased)).toEqual([`${id}/0`, `${id}/1`]);
    const { reports } = await rig.store.work(
      leased.map((lease) => say(lease, { succeeded: [0] })),
      null,
    );
    expect(reports).toEqual(["settled", "settled"]);
  });

  rule("a worker leases only batches of its pipeline", async ({ rig }) => {
    const id = await rig.running([1], { pipeline: "export" });
    expect(await rig.lease()).toEqual([]);
    expect(places(await rig.lease({ pipeline: "export" }))).toEqual([`${id}/0`]);
  });

  rule("a worker can request one batch alone", async ({ rig }) => {
    await rig.running([1]);
    const second = await rig.running([1]);
    expect(places(await rig.lease({ batch: second, chunksMax: 9 }))).toEqual([`${second}/0`]);
    expect(await rig.lease({ batch: second })).toEqual([]);
    expect(await rig.lease({ batch: "unknown" })).toEqual([]);
  });

  rule(
    "a waiting chunk is leased when its earliest item is due, and not before",
    async ({ rig }) => {
      await rig.running([3]);
      const lease = await rig.leaseOne();
      await rig.report(lease, { succeeded: [0], retryInMs: { 1: 500, 2: 200 } });
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 200 });
      rig.clock.advance(199);
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 1 });
      rig.clock.advance(1);
      const again = await rig.leaseOne();
      expect(wordsOf(again)).toEqual(["succeeded", "pending", "pending"]);
      expect(again.histories).toEqual([
        { index: 1, attempts: 1, deaths: 0, dueInMs: 300, ...FIRST_DRIVE },
        { index: 2, attempts: 1, deaths: 0, dueInMs: 0, ...FIRST_DRIVE },
      ]);
    },
  );

  rule("a chunk with an item that never ran is due at once", async ({ rig }) => {
    await rig.running([2]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 500 } });
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 1, deaths: 0, dueInMs: 500, ...FIRST_DRIVE },
    ]);
  });

  rule(
    "items in back-off stay in back-off when their chunk is given back early",
    async ({ rig }) => {
      await rig.running([2]);
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 500, 1: 100 } });
      rig.clock.advance(100);
      const second = await rig.leaseOne();
      await rig.report(second, { succeeded: [1] });
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 400 });
    },
  );

  rule(
    "back-off is measured by the monotonic clock: a jump of the wall clock changes nothing",
    async ({ rig }) => {
      await rig.running([1]);
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 500 } });
      rig.clock.jumpWall(3_600_000);
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 500 });
      rig.clock.jumpWall(-7_200_000);
      rig.clock.advance(500);
      expect(await rig.lease()).toHaveLength(1);
    },
  );

  rule(
    "the next due time is the earliest of the batches that the worker accepts",
    async ({ rig }) => {
      for (const [version, pipeline, ms] of [
        ["1", "import", 700],
        ["2", "import", 400],
        ["3", "import", 100],
        ["1", "export", 50],
      ] as const) {
        const id = await rig.running([1], { version, pipeline });
        const lease = await rig.leaseOne({ batch: id, versions: [version], pipeline });
        await rig.report(lease, { retryInMs: { 0: ms } });
      }
      expect((await rig.look()).nextDueInMs).toBe(700);
      expect((await rig.look({ versions: ["1", "2"] })).nextDueInMs).toBe(400);
      expect((await rig.look({ batch: "unknown" })).nextDueInMs).toBeNull();
    },
  );

  rule(
    "there is no next due time when something is leased now or nothing waits",
    async ({ rig }) => {
      await rig.running([1, 1]);
      await rig.report(await rig.leaseOne(), { retryInMs: { 0: 500 } });
      expect(await rig.look()).toMatchObject({ leased: [{ chunk: 1 }], nextDueInMs: null });
      rig.clock.advance(500);
      await rig.leaseOne();
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: null });
      expect(await rig.store.work([], null)).toMatchObject({ leased: [], nextDueInMs: null });
    },
  );

  rule("one commit settles a chunk and leases the next one", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    const first = await rig.leaseOne();
    const both = await rig.store.work([say(first, { succeeded: [0, 1] })], rig.request());
    expect(both).toMatchObject({ reports: ["settled"], leased: [{ batch: id, chunk: 1 }] });
  });

  rule("a chunk that is given back can be leased in the same commit", async ({ rig }) => {
    await rig.running([1]);
    const first = await rig.leaseOne();
    const both = await rig.store.work([say(first, {})], rig.request());
    expect(both).toMatchObject({ reports: ["yielded"], leased: [{ chunk: 0, fence: 2 }] });
  });

  rule("a lease takes nothing from a batch that its own commit ended", async ({ rig }) => {
    await rig.running([1]);
    const next = await rig.running([1]);
    const both = await rig.store.work(
      [say(await rig.leaseOne(), { succeeded: [0] })],
      rig.request({ chunksMax: 5 }),
    );
    expect(both.leased.map(({ batch }) => batch)).toEqual([next]);
  });

  rule("changing the map of a lease does not change the store", async ({ rig }) => {
    const id = await rig.running([4]);
    const lease = await rig.leaseOne();
    lease.outcomes.fill(0xff);
    await rig.lose(LEASE_MS);
    expect(wordsOf(await rig.leaseOne())).toEqual(["pending", "pending", "pending", "pending"]);
    expect((await rig.recount(id)).recounted.pending).toBe(4);
  });
}
