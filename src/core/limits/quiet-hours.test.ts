import { describe, expect, test } from "vitest";
import { computeQuietMs, isTimeZone, parseTimeOfDay, type QuietRange } from "./quiet-hours.ts";

const HOUR_MS = 3_600_000;
const NIGHT: QuietRange = { from: "22:00", to: "08:00", timeZone: "UTC" };
const at = (text: string): number => Date.parse(text);

describe("times of the day", () => {
  test("have hours and minutes, up to 24:00", () => {
    expect(["00:00", "07:30", "23:59", "24:00"].map(parseTimeOfDay)).toEqual([
      0, 450, 1_439, 1_440,
    ]);
    const none = ["7:30", "24:01", "25:00", "12:60", "noon", "", 7, null];
    expect(none.map(parseTimeOfDay)).toEqual(none.map(() => null));
  });

  test("need an existing time zone", () => {
    expect(["UTC", "Europe/Berlin", "Asia/Kolkata"].every(isTimeZone)).toBe(true);
    expect(["Europe/Berlinn", "", 3].some(isTimeZone)).toBe(false);
  });
});

describe("how long it is quiet", () => {
  test("0 by day, and until the morning by night, also over midnight", () => {
    expect(computeQuietMs([NIGHT], at("2026-03-04T12:00:00Z"))).toBe(0);
    expect(computeQuietMs([NIGHT], at("2026-03-04T08:00:00Z"))).toBe(0);
    expect(computeQuietMs([NIGHT], at("2026-03-04T22:00:00Z"))).toBe(10 * HOUR_MS);
    expect(computeQuietMs([NIGHT], at("2026-03-05T07:59:59.500Z"))).toBe(500);
    expect(computeQuietMs([], at("2026-03-05T03:00:00Z"))).toBe(0);
  });

  test("by the clock of the given zone", () => {
    const kolkata = [{ ...NIGHT, timeZone: "Asia/Kolkata" }];
    expect(computeQuietMs(kolkata, at("2026-03-04T16:29:59Z"))).toBe(0);
    expect(computeQuietMs(kolkata, at("2026-03-04T16:30:00Z"))).toBe(10 * HOUR_MS);
  });

  test("an hour less or more on the night when clocks change", () => {
    const berlin = [{ ...NIGHT, timeZone: "Europe/Berlin" }];
    expect(computeQuietMs(berlin, at("2026-03-28T21:00:00Z"))).toBe(9 * HOUR_MS);
    expect(computeQuietMs(berlin, at("2026-10-24T20:00:00Z"))).toBe(11 * HOUR_MS);
  });

  test("only on its days: those on which a range begins", () => {
    const saturday = [{ ...NIGHT, days: ["sat"] as const }];
    // 2026-03-07 is a Saturday.
    expect(computeQuietMs(saturday, at("2026-03-06T23:00:00Z"))).toBe(0);
    expect(computeQuietMs(saturday, at("2026-03-07T23:00:00Z"))).toBe(9 * HOUR_MS);
    expect(computeQuietMs(saturday, at("2026-03-08T07:00:00Z"))).toBe(HOUR_MS);
    expect(computeQuietMs(saturday, at("2026-03-08T23:00:00Z"))).toBe(0);
  });

  test("over ranges that follow one another", () => {
    const sunday: QuietRange = { from: "00:00", to: "24:00", timeZone: "UTC", days: ["sun"] };
    expect(computeQuietMs([NIGHT, sunday], at("2026-03-07T23:00:00Z"))).toBe(33 * HOUR_MS);
  });

  test("for ever, where the ranges cover the whole week", () => {
    expect(computeQuietMs([{ ...NIGHT, from: "08:00" }], at("2026-03-07T23:00:00Z"))).toBeNull();
    const day: QuietRange = { from: "08:00", to: "22:00", timeZone: "UTC" };
    expect(computeQuietMs([NIGHT, day], at("2026-03-07T23:00:00Z"))).toBeNull();
  });
});
