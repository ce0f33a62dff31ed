import { describe, expect, test } from "vitest";
import { DEFAULT_RESTART, decideRestart, type ProcessLife } from "./restart.ts";

const LIFE: ProcessLife = { isStopping: false, mayFinish: false, hopeless: [2, 70], deaths: 0 };
const decide = (code: number | null, life: Partial<ProcessLife> = {}, livedMs = 5) =>
  decideRestart(DEFAULT_RESTART, { code, livedMs }, { ...LIFE, ...life }, 0.5);

describe("a process that ended", () => {
  test("is restarted, whether a signal or an error ended it", () => {
    for (const code of [null, 1, 137]) {
      expect(decide(code)).toEqual({ kind: "restart", deaths: 1, delayMs: 188 });
    }
  });

  test("waits twice as long after each death in a row, up to a maximum", () => {
    const delays = Array.from({ length: 12 }, (_, deaths) => decide(null, { deaths }));
    const ceilings = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000];
    expect(delays.slice(0, 10)).toEqual(
      ceilings.map((ceiling, deaths) => ({
        kind: "restart",
        deaths: deaths + 1,
        delayMs: Math.ceil(ceiling * 0.75),
      })),
    );
    expect(decide(null, { deaths: 5_000 })).toMatchObject({ delayMs: 22_500 });
  });

  test("starts counting again when it has lived long enough", () => {
    expect(decide(null, { deaths: 9 }, DEFAULT_RESTART.quietMs)).toEqual({
      kind: "restart",
      deaths: 1,
      delayMs: 188,
    });
  });

  test("that exits with 0 without being told to is restarted, and does not count as a death", () => {
    expect(decide(0, { deaths: 2 })).toMatchObject({ kind: "restart", deaths: 2 });
  });

  test("is not restarted when it was told to stop, or has finished its work", () => {
    for (const code of [0, 1, null]) {
      expect(decide(code, { isStopping: true })).toEqual({ kind: "done" });
    }
    expect(decide(0, { mayFinish: true })).toEqual({ kind: "done" });
    expect(decide(1, { mayFinish: true })).toMatchObject({ kind: "restart" });
  });

  test("is not restarted when it would fail the same way again, also while it stops", () => {
    expect(decide(70)).toEqual({ kind: "give_up", code: 70 });
    expect(decide(2, { mayFinish: true })).toEqual({ kind: "give_up", code: 2 });
    expect(decide(70, { isStopping: true })).toEqual({ kind: "give_up", code: 70 });
  });
});
