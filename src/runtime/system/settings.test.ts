import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import {
  DEFAULT_SETTINGS,
  type EngineSettings,
  findSettingProblems,
  resolveSettings,
} from "./settings.ts";

function refuse(given: object): SluiceError {
  try {
    resolveSettings(given);
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(given)} was accepted`);
}

describe("engine settings", () => {
  test("without any the defaults hold, and what is undefined counts as not given", () => {
    expect(resolveSettings({})).toEqual(DEFAULT_SETTINGS);
    const given = { leaseMs: undefined } as unknown as Partial<EngineSettings>;
    expect(resolveSettings(given)).toEqual(DEFAULT_SETTINGS);
  });

  test("a renewal that could come too late is refused", () => {
    expect(refuse({ leaseMs: 1_000, renewMs: 501 }).message).toContain("at most half of leaseMs");
    expect(refuse({ leaseMs: 9_000 }).message).toContain("renewMs (5000)");
    expect(refuse({ renewMs: 20_000 }).code).toBe("BAD_SETTINGS");
    expect(resolveSettings({ leaseMs: 1_000, renewMs: 500 }).renewMs).toBe(500);
  });

  test("a batch cannot be stale before it is an orphan", () => {
    expect(refuse({ orphanMs: 2_000, staleMs: 1_999 }).message).toContain(
      "staleMs (1999) must not be below orphanMs (2000)",
    );
    expect(resolveSettings({ orphanMs: 2_000, staleMs: 2_000 }).staleMs).toBe(2_000);
  });

  test("evidence cannot go before what a redrive needs, and stays for ever at 0", () => {
    expect(refuse({ keepMs: 2_000, keepEvidenceMs: 1_999 }).message).toContain(
      "keepEvidenceMs (1999) must not be below keepMs (2000)",
    );
    expect(refuse({ keepEvidenceMs: 1_000 }).code).toBe("BAD_SETTINGS");
    expect(resolveSettings({ keepMs: 2_000, keepEvidenceMs: 2_000 }).keepEvidenceMs).toBe(2_000);
    expect(resolveSettings({ keepMs: 2_000, keepEvidenceMs: 0 }).keepEvidenceMs).toBe(0);
  });

  test("work is not given up before a worker that was not told of it looks for it", () => {
    expect(refuse({ pollMs: 2_001, stallMs: 2_000 }).message).toContain("not be above stallMs");
    expect(resolveSettings({ pollMs: 2_000, stallMs: 2_000 }).pollMs).toBe(2_000);
  });

  test("several contradictions are said at once, each with its settings", () => {
    const given = { renewMs: 20_000, orphanMs: 2_000, staleMs: 1_000, keepEvidenceMs: 1 };
    expect(findSettingProblems(given).map(({ settings }) => settings)).toEqual([
      ["renewMs", "leaseMs"],
      ["staleMs", "orphanMs"],
      ["keepEvidenceMs", "keepMs"],
    ]);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 0, 1.5, "5000", null])(
    "a lease of %s is refused",
    (leaseMs) => {
      expect(refuse({ leaseMs }).message).toContain("leaseMs must be a whole number");
    },
  );

  test("every number of the settings is checked", () => {
    for (const name of Object.keys(DEFAULT_SETTINGS)) {
      expect(refuse({ [name]: Number.NaN }).message, name).toContain(name);
    }
  });

  test("what is no setting is named, and all that is wrong is said at once", () => {
    const { message, hint } = refuse({ leaseMS: 5, flushItems: 0, drainMs: -1 });
    expect(message).toContain("leaseMS is not a setting");
    expect(message).toContain("flushItems must be");
    expect(message).toContain("drainMs must be");
    expect(hint).toBeTypeOf("string");
  });
});
