import { expect, test } from "vitest";
import { formatAge, formatDuration, formatRange } from "./format-duration.ts";
import { countNoun, formatBytes, formatCount, formatPercent, formatRate } from "./format-number.ts";

test("a duration has at most two units and no false precision", () => {
  const shown = [0, 999, 1_000, 9_949, 9_950, 25_000, 59_499, 59_500, 60_000, 200_000].map(
    formatDuration,
  );
  expect(shown).toEqual([
    "0 ms",
    "999 ms",
    "1.0 s",
    "9.9 s",
    "10 s",
    "25 s",
    "59 s",
    "1 min",
    "1 min",
    "3 min 20 s",
  ]);
  expect(formatDuration(3_599_500)).toBe("1 h");
  expect(formatDuration(7_500_000)).toBe("2 h 5 min");
  expect(formatDuration(90_000_000)).toBe("1 d 1 h");
});

test("a range has the unit of its larger end", () => {
  expect(formatRange({ low: 2_100, high: 2_900 })).toBe("2-3 s");
  expect(formatRange({ low: 60_000, high: 180_000 })).toBe("1-3 min");
  expect(formatRange({ low: 3_000, high: 3_000 })).toBe("3 s");
});

test("an age has one unit", () => {
  expect([500, 5_000, 120_000, 7_200_000, 172_800_000].map(formatAge)).toEqual([
    "just now",
    "5 s ago",
    "2 min ago",
    "2 h ago",
    "2 d ago",
  ]);
});

test("a batch is at 100 % only when it is done", () => {
  expect(formatPercent(999_999, 1_000_000)).toBe("99%");
  expect(formatPercent(1_000_000, 1_000_000)).toBe("100%");
  expect(formatPercent(0, 0)).toBe("0%");
});

test("counts, rates and sizes are short", () => {
  expect(formatCount(1_234_567)).toBe("1,234,567");
  expect([86_234.4, 12, 3.44, 0.05, 0].map(formatRate)).toEqual([
    "86,234/s",
    "12/s",
    "3.4/s",
    "3.0/min",
    "0.0/s",
  ]);
  expect([5, 1_024, 1_500_000, 2 ** 40].map(formatBytes)).toEqual([
    "5 B",
    "1.0 KiB",
    "1.4 MiB",
    "1.0 TiB",
  ]);
  expect([countNoun(1, "item"), countNoun(2_000, "item")]).toEqual(["1 item", "2,000 items"]);
});
