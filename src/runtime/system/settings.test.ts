import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import {
  DEFAULT_SETTINGS,
  type EngineSettings,
  findSettingProblems,
  resolveSettings,
} from "./settings.ts";

/** What a server recommends. */
const LOOKS = { pollMs: 20_000, sweepMs: 5_000 };

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
  test("have their defaults where none is given or one is undefined", () => {
    expect(resolveSettings({})).toMatchObject(DEFAULT_SETTINGS);
    const given = { leaseMs: undefined } as unknown as Partial<EngineSettings>;
    expect(resolveSettings(given)).toEqual(resolveSettings({}));
  });

  test("refuse to delete evidence before redrive data, and keep it for ever at 0", () => {
    expect(refuse({ keepMs: 2_000, keepEvidenceMs: 1_999 }).message).toContain(
      "keepEvidenceMs (1999) must be at least keepMs (2000)",
    );
    expect(refuse({ keepEvidenceMs: 1_000 })).toMatchObject({
      code: "BAD_OPTION",
      field: "keepEvidenceMs, keepMs",
    });
    expect(resolveSettings({ keepMs: 2_000, keepEvidenceMs: 2_000 }).keepEvidenceMs).toBe(2_000);
    expect(resolveSettings({ keepMs: 2_000, keepEvidenceMs: 0 }).keepEvidenceMs).toBe(0);
  });

  test("refuse a poll that comes after work is given up, also one that the store recommends", () => {
    const problem = "must be at most stallMs (2000)";
    expect(refuse({ pollMs: 2_001, stallMs: 2_000 }).message).toContain(problem);
    expect(resolveSettings({ pollMs: 2_000, stallMs: 2_000 }).pollMs).toBe(2_000);
    const slow = (): unknown => resolveSettings({ stallMs: 2_000 }, LOOKS);
    expect(slow).toThrow(`pollMs (20000) ${problem}`);
  });

  test("list all contradictions at once, each with its settings and its remedy", () => {
    const given = { pollMs: 5_000, stallMs: 2_000, keepEvidenceMs: 1 };
    const problems = findSettingProblems(given);
    expect(problems.map(({ settings }) => settings)).toEqual([
      ["pollMs", "stallMs"],
      ["keepEvidenceMs", "keepMs"],
    ]);
    expect(problems[0]?.problem).toMatch(/Lower pollMs or raise stallMs$/);
    expect(problems[1]?.problem).toMatch(/Raise keepEvidenceMs, set it to 0, or lower keepMs$/);
    const { message } = refuse(given);
    for (const { problem } of problems) expect(message).toContain(problem);
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

  test("name what is not a setting, with a suggestion, and all that is wrong at once", () => {
    const { message, hint } = refuse({ leaseMS: 5, flushMs: 0, drainMs: -1 });
    expect(message).toContain("leaseMS is not a setting. Did you mean leaseMs?");
    expect(message).toContain("flushMs must be");
    expect(message).toContain("drainMs must be");
    expect(hint).toBeTypeOf("string");
  });
});

describe("what is derived", () => {
  test("of the defaults is that of the guides", () => {
    expect(resolveSettings({})).toMatchObject({
      renewMs: 5_000,
      sweepMs: 1_000,
      watchMs: 60_000,
      staleMs: 6 * 3_600_000,
      flushItems: 1_000,
      leaseTargetMs: 50,
      outageRetryMs: 5_000,
    });
  });

  test.each([
    // The shortest lease, one that is no multiple of three, the default, one that is not capped.
    { leaseMs: 100, renewMs: 33, embedded: 33, server: 33 },
    { leaseMs: 1_000, renewMs: 333, embedded: 333, server: 333 },
    { leaseMs: 15_000, renewMs: 5_000, embedded: 1_000, server: 5_000 },
    { leaseMs: 86_400_000, renewMs: 28_800_000, embedded: 1_000, server: 5_000 },
  ])("of a lease of $leaseMs ms renews every $renewMs ms", (row) => {
    const { leaseMs, renewMs, embedded, server } = row;
    expect(resolveSettings({ leaseMs })).toMatchObject({ renewMs, sweepMs: embedded });
    expect(resolveSettings({ leaseMs }, LOOKS)).toMatchObject({ renewMs, sweepMs: server });
  });

  test("follows stallMs and orphanMs, at their bounds too", () => {
    expect(resolveSettings({ stallMs: 10, pollMs: 10 }).watchMs).toBe(5);
    expect(resolveSettings({ stallMs: 86_400_000 }).watchMs).toBe(43_200_000);
    expect(resolveSettings({ orphanMs: 100 }).staleMs).toBe(2_400);
    const year = 365 * 86_400_000;
    expect(resolveSettings({ orphanMs: year }).staleMs).toBe(24 * year);
  });

  test("is nothing that a caller can set beside the settings", () => {
    for (const name of ["renewMs", "sweepMs", "watchMs", "staleMs", "flushItems", "tuning"]) {
      expect(refuse({ [name]: 5_000 }).message).toContain(`${name} is not a setting`);
    }
    const tuned = resolveSettings({}, undefined, { sweepMs: 10 });
    expect(tuned).toEqual({ ...resolveSettings({}), sweepMs: 10 });
  });
});
