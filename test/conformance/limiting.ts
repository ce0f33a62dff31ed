/**
 * Limits: what all workers may start together, taken from buckets, and chunks that wait for tokens.
 */
import { expect } from "vitest";
import type { BucketSpec, TokenGrant } from "../../src/core/limits/bucket.ts";
import type { TokenDraw } from "../../src/ports/store/token-store.ts";
import { listStarts } from "../support/list-starts.ts";
import { ME, type Rig, type Rule } from "./rig.ts";

const RATE: BucketSpec = { kind: "rate", perSecond: 10, burst: 1 };
const PACE: BucketSpec = { kind: "pace", items: 3, everyMs: 1_000, smooth: false, quiet: [] };
const SITE = { bucket: "rate/import", key: "site" };

const ask = (changes: Partial<TokenDraw> = {}): TokenDraw => ({
  ...SITE,
  spec: RATE,
  cost: 1,
  count: 1,
  ...changes,
});

/** When each granted start may take place. Empty if nothing was granted. */
const list = (grant: TokenGrant | undefined): number[] =>
  listStarts(grant ?? { atOnce: 0, inMs: [] });

export function describeLimiting(rule: Rule): void {
  describeDraws(rule);
  describeClosing(rule);
  describeOutages(rule);
  describeRests(rule);
}

function describeDraws(rule: Rule): void {
  rule("tokens that one worker takes are gone for the others", async ({ rig }) => {
    const [first] = await rig.store.draw([ask({ count: 9 })], 0);
    expect(first).toMatchObject({ atOnce: 1, inMs: [104], waitReason: "rate", open: false });
    const [second] = await rig.store.draw([ask()], 0);
    expect(second).toMatchObject({ atOnce: 0, inMs: [], waitReason: "rate" });
    expect(second?.nextInMs).toBe(208);
    rig.clock.advance(208);
    expect(list((await rig.store.draw([ask()], 0))[0])).toEqual([0]);
  });

  rule("one call limits each key and each bucket separately", async ({ rig }) => {
    const grants = await rig.store.draw(
      [
        ask(),
        ask({ key: "other" }),
        ask({ bucket: "rate/export" }),
        ask(),
        ask({ spec: PACE, bucket: "pace/1" }),
      ],
      0,
    );
    expect(grants.map(list)).toEqual([[0], [0], [0], [104], [0]]);
  });

  rule("a pace counts granted starts, used or not, until its window is over", async ({ rig }) => {
    const draw = async (count: number) =>
      (await rig.store.draw([ask({ bucket: "pace/1", spec: PACE, count })], 0))[0];
    expect(list(await draw(2))).toEqual([0, 0]);
    expect(await draw(2)).toMatchObject({ atOnce: 1, waitReason: "pace", nextInMs: 1_125 });
    rig.clock.advance(1_124);
    expect(list(await draw(1))).toEqual([]);
    rig.clock.advance(1);
    expect(list(await draw(9))).toEqual([0, 0, 0]);
  });

  rule("a batch without a rate is not limited", async ({ rig }) => {
    const [grant] = await rig.store.draw([ask({ spec: { kind: "open" } })], 0);
    expect(grant).toEqual({
      atOnce: 0,
      inMs: [],
      usableMs: 1_000,
      nextInMs: 0,
      open: true,
      waitReason: null,
    });
  });

  rule(
    "an operator's rate applies at once, and the rate of a key replaces the general one",
    async ({ rig }) => {
      const set = (name: string, perSecond: number | null) =>
        rig.store.setLimit(
          {
            kind: "rate",
            scope: "rate",
            name,
            value: perSecond === null ? null : { perSecond, burst: 1 },
          },
          ME,
        );
      const draw = async (changes: Partial<TokenDraw> = {}) =>
        list((await rig.store.draw([ask({ count: 9, ...changes })], 0))[0]).length;
      await set("import", 100);
      await set("import/slow", 1);
      expect(await draw()).toBeGreaterThan(9 - 1);
      expect(await draw({ key: "slow" })).toBe(1);
      expect(await draw({ key: "open", spec: { kind: "open" }, count: 90 })).toBeLessThan(30);
      expect(await draw({ bucket: "rate/export" })).toBe(2);
      await set("import", null);
      expect(await draw({ key: "later" })).toBe(2);
    },
  );

  rule("a jump of the wall clock does not change a rate or a pace", async ({ rig }) => {
    const both = [ask({ count: 9 }), ask({ bucket: "pace/1", spec: PACE, count: 3 })];
    await rig.store.draw(both, 0);
    for (const byMs of [86_400_000, -200_000_000]) {
      rig.clock.jumpWall(byMs);
      const grants = await rig.store.draw(both, 0);
      expect(grants.map(list)).toEqual([[], []]);
    }
  });

  rule("a full bucket is deleted without a visible effect", async ({ rig }) => {
    await rig.store.draw([ask({ count: 2 })], 0);
    await rig.sweep();
    expect(list((await rig.store.draw([ask()], 0))[0])).toEqual([]);
    rig.clock.advance(10_000);
    await rig.sweep();
    expect(list((await rig.store.draw([ask({ count: 2 })], 0))[0])).toEqual([0, 104]);
  });
}

function describeClosing(rule: Rule): void {
  rule(
    "a closed key grants nothing until it opens, and other keys are not affected",
    async ({ rig }) => {
      await rig.store.closeBucket(SITE, 2_000);
      const [closed, other] = await rig.store.draw([ask(), ask({ key: "other" })], 0);
      expect(closed).toMatchObject({ atOnce: 0, inMs: [], waitReason: "closed", nextInMs: 2_000 });
      expect(list(other)).toEqual([0]);
      expect(await rig.store.listClosed()).toEqual([{ ...SITE, forMs: 2_000 }]);
      rig.clock.advance(1_999);
      expect((await rig.store.draw([ask()], 0))[0]?.waitReason).toBe("closed");
      rig.clock.advance(1);
      expect(list((await rig.store.draw([ask()], 0))[0])).toEqual([0]);
      expect(await rig.store.listClosed()).toEqual([]);
    },
  );

  rule("the later end of two closings counts", async ({ rig }) => {
    await rig.store.closeBucket(SITE, 5_000);
    await rig.store.closeBucket(SITE, 1_000);
    expect((await rig.store.listClosed())[0]?.forMs).toBe(5_000);
  });

  rule("a key can be opened early, and earlier grants still count", async ({ rig }) => {
    await rig.store.draw([ask({ count: 2 })], 0);
    await rig.store.closeBucket(SITE, 60_000);
    expect(await rig.store.openBucket(SITE)).toBe(true);
    expect(await rig.store.openBucket(SITE)).toBe(false);
    expect((await rig.store.draw([ask()], 0))[0]).toMatchObject({
      atOnce: 0,
      inMs: [],
      waitReason: "rate",
    });
  });

  rule("a sweep does not delete a key that is still closed", async ({ rig }) => {
    await rig.store.closeBucket(SITE, 60_000);
    await rig.store.closeBucket({ ...SITE, key: "b" }, 10);
    rig.clock.advance(50_000);
    await rig.sweep();
    expect(await rig.store.listClosed()).toEqual([{ ...SITE, forMs: 10_000 }]);
  });
}

function describeOutages(rule: Rule): void {
  rule(
    "an outage closes a batch's pace, and an item with an outcome ends a series of outages",
    async ({ rig }) => {
      const id = await rig.running([3]);
      const draw = async () =>
        (await rig.store.draw([ask({ bucket: `pace/${id}/0`, key: "", spec: PACE })], 0))[0];
      expect(await rig.store.noteOutage(id, 0, 1_000)).toBe(1);
      expect(await rig.store.noteOutage(id, 0, 1_000)).toBe(1);
      expect(await draw()).toMatchObject({
        atOnce: 0,
        inMs: [],
        waitReason: "closed",
        nextInMs: 1_000,
      });
      rig.clock.advance(1_000);
      expect(list(await draw())).toEqual([0]);
      expect(await rig.store.noteOutage(id, 0, 1_000)).toBe(2);
      rig.clock.advance(1_000);
      await rig.sweep();
      await rig.report(await rig.leaseOne(), { succeeded: [0] });
      expect(await rig.store.noteOutage(id, 0, 1_000)).toBe(1);
    },
  );
}

const REST = { inMs: 500, waitReason: "rate", key: "site" } as const;

async function readChunk(rig: Rig, id: string) {
  const waiting = await rig.store.readWaiting(id, 9);
  return { batch: waiting?.batch, chunk: waiting?.chunks[0] };
}

function describeRests(rule: Rule): void {
  rule(
    "a chunk that waits for a limit is due when the limit may allow a start",
    async ({ rig }) => {
      const id = await rig.running([2]);
      await rig.serve();
      await rig.report(await rig.leaseOne(), { succeeded: [0], limitWait: REST });
      expect(await rig.lease()).toEqual([]);
      const rest = { waitReason: "rate", key: "site" };
      expect(await readChunk(rig, id)).toMatchObject({
        batch: { nextDueInMs: 500, nextRest: rest },
        chunk: { dueInMs: 500, rest },
      });
      rig.clock.advance(499);
      expect(await rig.lease()).toEqual([]);
      rig.clock.advance(1);
      await rig.settle(await rig.leaseOne());
      expect(await rig.state(id)).toBe("succeeded");
    },
  );

  rule("an item in back-off does not wait for the limit of other items", async ({ rig }) => {
    await rig.running([3]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 100 }, limitWait: REST });
    rig.clock.advance(100);
    const lease = await rig.leaseOne();
    await rig.report(lease, { upon: lease.outcomes, retryInMs: { 0: 9_000 }, limitWait: REST });
    rig.clock.advance(499);
    expect(await rig.lease()).toEqual([]);
    rig.clock.advance(1);
    expect(await rig.lease()).toHaveLength(1);
  });

  rule("an item whose back-off is over waits for the limit like other items", async ({ rig }) => {
    await rig.running([1]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 100 } });
    rig.clock.advance(100);
    await rig.report(await rig.leaseOne(), { limitWait: REST });
    rig.clock.advance(499);
    expect(await rig.lease()).toEqual([]);
    rig.clock.advance(1);
    expect(await rig.lease()).toHaveLength(1);
  });

  rule(
    "a wait for a limit ends with the next lease and does not apply to a kept chunk",
    async ({ rig }) => {
      const id = await rig.running([2]);
      const lease = await rig.leaseOne();
      await rig.report(lease, { succeeded: [0], limitWait: REST, intent: "keep" });
      await rig.report(lease, { upon: lease.outcomes, succeeded: [0], limitWait: REST });
      rig.clock.advance(500);
      await rig.report(await rig.leaseOne(), {});
      expect(await readChunk(rig, id)).toMatchObject({ chunk: { dueInMs: 0, rest: null } });
    },
  );

  rule("a batch whose chunks wait for a limit does not count as stalled", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve();
    await rig.report(await rig.leaseOne(), { limitWait: { ...REST, inMs: 10 ** 9 } });
    for (let look = 0; look < 10; look++) {
      rig.clock.advance(600_000);
      await rig.serve();
      expect((await rig.sweep()).tended).toBe(0);
    }
    expect(await rig.state(id)).toBe("running");
  });
}
