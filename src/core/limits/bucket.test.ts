import { describe, expect, test } from "vitest";
import {
  type BucketSpec,
  countOutage,
  decideDraw,
  findBucketEnd,
  findClosingEnd,
  NEW_BUCKET,
} from "./bucket.ts";

const TIME = { monotonicMs: 5_000, wallMs: Date.parse("2026-03-04T12:00:00Z") };
const ASK = { cost: 1, count: 2, slackMs: 1 };
const PACE: BucketSpec = { kind: "pace", items: 5, everyMs: 1_000, smooth: false, quiet: [] };
const RATE: BucketSpec = { kind: "rate", perSecond: 10, burst: 1 };

describe("the starts that are granted", () => {
  test("follow a rate, a pace, or are unlimited without either", () => {
    expect(decideDraw(NEW_BUCKET, RATE, ASK, TIME).grant).toMatchObject({
      atOnce: 1,
      inMs: [104],
      open: false,
      waitReason: null,
    });
    expect(decideDraw(NEW_BUCKET, RATE, { ...ASK, count: 9 }, TIME).grant.waitReason).toBe("rate");
    expect(decideDraw(NEW_BUCKET, PACE, ASK, TIME).grant.atOnce).toBe(2);
    expect(decideDraw(NEW_BUCKET, PACE, { ...ASK, count: 6 }, TIME).grant.waitReason).toBe("pace");
    expect(decideDraw(NEW_BUCKET, { kind: "open" }, ASK, TIME).grant).toEqual({
      atOnce: 0,
      inMs: [],
      usableMs: 1_000,
      nextInMs: 0,
      open: true,
      waitReason: null,
    });
  });

  test("are none while a bucket is closed, until it opens", () => {
    const closed = { ...NEW_BUCKET, closedUntil: 5_700 };
    for (const spec of [RATE, PACE, { kind: "open" } as const]) {
      const { grant, state } = decideDraw(closed, spec, ASK, TIME);
      expect(grant).toMatchObject({
        atOnce: 0,
        inMs: [],
        open: false,
        nextInMs: 700,
        waitReason: "closed",
      });
      expect(state).toBe(closed);
      const later = { ...TIME, monotonicMs: 5_700 };
      expect(decideDraw(closed, spec, ASK, later).grant.waitReason).not.toBe("closed");
    }
  });

  test("are none in quiet hours, nor so shortly before that one could start in them", () => {
    const quiet = [{ from: "13:00", to: "14:00", timeZone: "UTC" }];
    const spec = { ...PACE, quiet };
    const draw = (text: string) =>
      decideDraw(NEW_BUCKET, spec, ASK, { ...TIME, wallMs: Date.parse(text) }).grant;
    expect(draw("2026-03-04T12:59:59Z").waitReason).toBeNull();
    expect(draw("2026-03-04T12:59:59.800Z")).toMatchObject({
      waitReason: "quiet",
      nextInMs: 3_600_200,
    });
    expect(draw("2026-03-04T13:30:00Z")).toMatchObject({
      waitReason: "quiet",
      nextInMs: 1_800_000,
    });
    expect(draw("2026-03-04T14:00:00Z").waitReason).toBeNull();
  });

  test("also for a smooth pace, whose next token is for later", () => {
    const spec = { ...PACE, items: 1, everyMs: 5_000, smooth: true };
    const quiet = [{ from: "13:00", to: "14:00", timeZone: "UTC" }];
    const spent = { ...NEW_BUCKET, paidUntil: TIME.monotonicMs + 200 };
    const time = { ...TIME, wallMs: Date.parse("2026-03-04T12:59:59.700Z") };
    const { inMs, usableMs } = decideDraw(spent, spec, ASK, time).grant;
    expect(inMs[0]! + usableMs).toBeGreaterThan(300);
    expect(decideDraw(spent, { ...spec, quiet }, ASK, time).grant.waitReason).toBe("quiet");
  });

  test("are valid for a bounded time, however long answers take: a key may be closed meanwhile", () => {
    const ask = { ...ASK, slackMs: 120_000 };
    for (const spec of [RATE, PACE, { kind: "open" } as const]) {
      expect(decideDraw(NEW_BUCKET, spec, ask, TIME).grant.usableMs).toBe(10_000);
    }
  });
});

test("a bucket is remembered until it has no effect any more", () => {
  expect(findBucketEnd(NEW_BUCKET, RATE)).toBe(0);
  expect(findBucketEnd({ ...NEW_BUCKET, closedUntil: 9 }, RATE)).toBe(9);
  expect(findBucketEnd({ ...NEW_BUCKET, paidUntil: 12 }, RATE)).toBe(12);
  const { state } = decideDraw(NEW_BUCKET, PACE, ASK, TIME);
  expect(findBucketEnd(state, PACE)).toBe(5_000 + 125 + 1_000);
});

describe("outages", () => {
  const first = countOutage(NEW_BUCKET, 7, 100, 1_000);

  test("close a bucket for a while, and are counted in a row", () => {
    expect(first).toMatchObject({ outages: 1, closedUntil: 1_100 });
    const second = countOutage(first, 7, 100, 1_100);
    expect(second).toMatchObject({ outages: 2, closedUntil: 1_200 });
    expect(countOutage(second, 8, 100, 1_200).outages).toBe(1);
  });

  test("that are noticed while the bucket is closed are the same outage", () => {
    expect(countOutage(first, 7, 100, 1_099)).toBe(first);
  });

  test("are remembered for longer than the last of them lasts", () => {
    expect(findClosingEnd(first)).toBe(1_100 + 86_400_000);
    expect(findClosingEnd({ ...NEW_BUCKET, closedUntil: 5 })).toBe(5);
  });
});
