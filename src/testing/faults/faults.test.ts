import { describe, expect, test } from "vitest";
import type { SluiceError } from "../../core/base/errors.ts";
import { crash, describeFault, late, loseAnswer, refuse } from "./faults.ts";

describe("a fault", () => {
  test("is described as it was written", () => {
    const faults = [
      crash.before("lease", 2),
      crash.after("settle", 3, { process: "main" }),
      loseAnswer("submit", 1),
      refuse("store.work", 4),
      late("renew", 1, 60_000),
    ];
    expect(faults.map(describeFault)).toEqual([
      'crash.before("lease", 2)',
      'crash.after("settle", 3, { process: "main" })',
      'loseAnswer("submit", 1)',
      'refuse("store.work", 4)',
      'late("renew", 1, 60000)',
    ]);
  });

  test("cannot be changed afterwards", () => {
    expect(Object.isFrozen(crash.after("settle", 1))).toBe(true);
  });
});

describe("a bad fault is refused when it is made", () => {
  const refused = (make: () => unknown): unknown => {
    try {
      make();
      return "nothing was thrown";
    } catch (error) {
      const { code, field, message, hint } = error as SluiceError;
      return `${code} ${field} ${message} ${hint}`;
    }
  };

  test("with an unknown point, with a suggestion", () => {
    expect(refused(() => crash.after("setle" as "settle", 1))).toBe(
      'BAD_OPTION fault crash.after("setle", 1): "setle" is not a fault point Did you mean settle?',
    );
    expect(refused(() => refuse("work" as "store.work", 1))).toContain("The points are commit");
    expect(refused(() => refuse("store.swep" as "store.sweep", 1))).toContain("mean store.sweep");
    expect(refused(() => crash.before("toString" as "settle", 1))).toContain(
      "is not a fault point",
    );
    expect(refused(() => loseAnswer(undefined as unknown as "settle", 1))).toContain("undefined");
  });

  test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "2" as unknown as number])(
    "with the number %s",
    (nth) => {
      expect(refused(() => crash.after("settle", nth))).toContain("whole number, 1 or more");
    },
  );

  test.each([0, -5, 0.5, Number.NaN])("that is late by %s ms", (byMs) => {
    expect(refused(() => late("settle", 1, byMs))).toContain("byMs must be a whole number");
  });

  test("with options other than a process", () => {
    expect(refused(() => crash.after("settle", 1, { node: "main" } as object))).toContain(
      "only { process",
    );
  });
});
