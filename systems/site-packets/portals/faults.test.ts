/** Faults depend on the document and the attempt alone, and end where the plan relies on it. */
import { describe, expect, test } from "vitest";
import { planCorpus } from "./corpus.ts";
import {
  ATTEMPTS_NEEDED_MAX,
  BAD_SITE,
  decideExpected,
  decideFault,
  FAULT_PROFILES,
  isFailure,
} from "./faults.ts";

const SEED = 9;
const plan = planCorpus({ seed: SEED, sites: 25, documents: 500 });
const delivered = plan.filter(({ expected }) => expected.code !== "DOWNLOAD_FAILED");
const undelivered = plan.filter(({ expected }) => expected.code === "DOWNLOAD_FAILED");

function shareFailing(places: typeof plan, attempt: number): number {
  const failing = places.filter((place) => isFailure(decideFault(SEED, place, attempt, "demo")));
  return failing.length / places.length;
}

test("the same document and attempt have the same fault in any order of requests", () => {
  const decideAll = (places: typeof plan) =>
    new Map(places.map((place) => [place.path, decideFault(SEED, place, 1, "hostile")]));
  const forwards = decideAll(plan);
  const backwards = decideAll(plan.toReversed());
  for (const { path } of plan) expect(forwards.get(path)).toEqual(backwards.get(path));
});

test("another attempt at a document can have another fault", () => {
  const differing = plan.filter(
    (place) =>
      isFailure(decideFault(SEED, place, 1, "demo")) !==
      isFailure(decideFault(SEED, place, 2, "demo")),
  );
  expect(differing.length).toBeGreaterThan(10);
});

test("in the demo about 6 % of first attempts fail, and few second ones", () => {
  expect(shareFailing(delivered, 1)).toBeGreaterThan(0.03);
  expect(shareFailing(delivered, 1)).toBeLessThan(0.1);
  expect(shareFailing(delivered, 2)).toBeLessThan(0.04);
});

test("the bad site fails much more often than the others, and is slow when it answers", () => {
  const bad = delivered.filter(({ site }) => site === BAD_SITE);
  const good = delivered.filter(({ site }) => site !== BAD_SITE);
  expect(shareFailing(bad, 1)).toBeGreaterThan(3 * shareFailing(good, 1));
  for (const place of bad) expect(decideFault(SEED, place, 4, "demo").kind).toBe("latency");
});

describe.each(FAULT_PROFILES)("under the profile %s", (profile) => {
  test("a client with enough attempts gets every document that can be delivered", () => {
    for (const place of delivered) {
      expect(isFailure(decideFault(SEED, place, ATTEMPTS_NEEDED_MAX, profile))).toBe(false);
    }
  });

  test("an undeliverable document fails at every attempt, unless all is calm", () => {
    expect(undelivered.length).toBe(3);
    for (const place of undelivered) {
      for (let attempt = 1; attempt <= 2 * ATTEMPTS_NEEDED_MAX; attempt++) {
        const failing = isFailure(decideFault(SEED, place, attempt, profile));
        expect(failing).toBe(profile !== "calm");
      }
      expect(decideExpected(place, profile).code).toBe(
        profile === "calm" ? null : "DOWNLOAD_FAILED",
      );
    }
  });
});

test("a calm portal has no faults", () => {
  for (const place of plan) {
    expect(decideFault(SEED, place, 1, "calm")).toEqual({ kind: "none" });
  }
});

test("a hostile portal has every kind of fault", () => {
  const kinds = new Set(plan.map((place) => decideFault(SEED, place, 1, "hostile").kind));
  expect(kinds).toEqual(new Set(["none", "latency", "status", "reset", "hang", "drip"]));
});
