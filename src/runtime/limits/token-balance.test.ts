import { describe, expect, test } from "vitest";
import { TokenBalance } from "./token-balance.ts";

const GRANT = { atOnce: 3, inMs: [50], usableMs: 100, nextInMs: 0, open: false, waitReason: null };

describe("held tokens", () => {
  test("may be used from their date on until they expire", () => {
    const balance = new TokenBalance();
    balance.add(GRANT, 1_000, 1_004);
    expect(balance.count(1_004)).toBe(4);
    expect(balance.take(1_003)).toBeNull();
    expect([1_004, 1_005, 1_099].map((now) => balance.take(now))).toEqual([1_100, 1_100, 1_100]);
    expect(balance.take(1_149)).toBe(1_150);
    expect(balance.take(1_149)).toBeNull();
    balance.add(GRANT, 2_000, 2_004);
    expect(balance.take(2_100)).toBe(2_150);
    expect(balance.take(2_150)).toBeNull();
  });

  test("are taken together where one date has more than must be left for others", () => {
    const balance = new TokenBalance();
    balance.add(GRANT, 1_000, 1_004);
    expect(balance.takeMany(2, 1, 1_004)).toBeNull();
    expect(balance.takeMany(1, 1, 1_004)).toBe(1_100);
    expect(balance.count(1_004)).toBe(3);
    expect(balance.takeMany(1, 0, 1_100)).toBeNull();
  });

  test("requested before a closing are not used, as the store did not know of it", () => {
    const balance = new TokenBalance();
    balance.close(9_000, 1_002);
    balance.add(GRANT, 1_000, 1_004);
    expect(balance.count(1_004)).toBe(0);
    expect(balance.askAt).toBe(9_000);
    expect(balance.isWorthKeeping(1_004)).toBe(true);
    balance.add(GRANT, 1_003, 1_004);
    expect(balance.count(1_004)).toBe(4);
  });
});
