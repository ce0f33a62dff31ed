/** What a portal's bucket gives, at times that the tests choose. */
import { expect, test } from "vitest";
import { RequestBucket } from "./request-bucket.ts";

const RATE = { perSecond: 5, burst: 10 };

const takeMany = (bucket: RequestBucket, nowMs: number, count: number) =>
  Array.from({ length: count }, () => bucket.takeToken(nowMs)).filter(Boolean).length;

test("a bucket gives its burst at once and no more", () => {
  expect(takeMany(new RequestBucket(RATE, 0), 0, 50)).toBe(10);
});

test("an empty bucket fills at its rate", () => {
  const bucket = new RequestBucket(RATE, 0);
  takeMany(bucket, 0, 50);
  expect(bucket.takeToken(199)).toBe(false);
  expect(bucket.takeToken(201)).toBe(true);
  expect(takeMany(bucket, 1_201, 50)).toBe(5);
});

test("a bucket never holds more than its burst", () => {
  expect(takeMany(new RequestBucket(RATE, 0), 3_600_000, 50)).toBe(10);
});

test("a bucket that could never give anything is refused", () => {
  expect(() => new RequestBucket({ perSecond: 0, burst: 10 }, 0)).toThrow(RangeError);
  expect(() => new RequestBucket({ perSecond: 5, burst: 0 }, 0)).toThrow(RangeError);
});
