/** The promises of a plan: always the same, every kind included, and real duplicates. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CorpusOptions,
  DOCUMENT_KINDS,
  type PlannedDocument,
  planCorpus,
  renderText,
} from "./corpus.ts";

const LARGE: CorpusOptions = { seed: 1, sites: 25, documents: 500 };

const countKind = (plan: readonly PlannedDocument[], kind: string) =>
  plan.filter((document) => document.kind === kind).length;

describe("a corpus", () => {
  test("is the same for the same seed and different for another seed", () => {
    expect(planCorpus(LARGE)).toEqual(planCorpus(LARGE));
    expect(planCorpus({ ...LARGE, seed: 2 })).not.toEqual(planCorpus(LARGE));
  });

  test("of 30 documents has every kind, and so has one of 100 sites", () => {
    for (const options of [
      { seed: 4, sites: 3, documents: 30 },
      { seed: 4, sites: 100, documents: 500 },
    ]) {
      const plan = planCorpus(options);
      expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(DOCUMENT_KINDS));
      expect(new Set(plan.map(({ site }) => site)).size).toBe(options.sites);
    }
  });

  test("of 500 documents is mostly short texts, with few scans and few bad ones", () => {
    const plan = planCorpus(LARGE);
    const texts = plan.filter(({ kind }) => kind === "text");
    expect(texts.length).toBeGreaterThan(415);
    expect(texts.length).toBeLessThan(435);
    expect(texts.filter(({ pages }) => pages === 200).length).toBe(2);
    expect(texts.filter(({ pages }) => pages >= 20 && pages <= 60).length).toBeGreaterThan(5);
    expect(texts.filter(({ pages }) => pages <= 6).length).toBeGreaterThan(400);
    expect(countKind(plan, "bomb")).toBe(1);
    for (const kind of ["encrypted", "truncated", "empty", "wrong-type", "too-large"]) {
      expect(countKind(plan, kind)).toBeGreaterThanOrEqual(2);
      expect(countKind(plan, kind)).toBeLessThanOrEqual(5);
    }
    const scanned = plan.filter(({ kind }) => kind === "scan");
    const scannedPages = scanned.reduce((sum, { pages }) => sum + pages, 0);
    expect(scannedPages).toBeLessThanOrEqual(24);
  });

  test("mentions informed consent in many of its texts, but not in all", () => {
    const texts = planCorpus(LARGE).filter(({ kind }) => kind === "text");
    const speaking = texts.filter((text) =>
      renderText(text).some((page) => page.includes("informed consent")),
    );
    expect(speaking.length / texts.length).toBeGreaterThan(0.3);
    expect(speaking.length / texts.length).toBeLessThan(0.6);
  });

  test("refuses to have no site, no documents or too many", () => {
    expect(() => planCorpus({ ...LARGE, sites: 0 })).toThrow(RangeError);
    expect(() => planCorpus({ ...LARGE, documents: 0 })).toThrow(RangeError);
    expect(() => planCorpus({ ...LARGE, documents: 1e9 })).toThrow(RangeError);
  });
});

describe("of any seed and size", () => {
  const options = fc.record({
    seed: fc.nat(),
    sites: fc.integer({ min: 1, max: 120 }),
    documents: fc.integer({ min: 1, max: 300 }),
  });
  const check = (rule: (plan: readonly PlannedDocument[]) => void) =>
    fc.assert(
      fc.property(options, (chosen) => {
        const plan = planCorpus(chosen);
        expect(plan.length).toBe(chosen.documents);
        rule(plan);
      }),
      { numRuns: 50 },
    );

  test("every entry has its own path", () => {
    check((plan) => {
      expect(new Set(plan.map(({ path }) => path)).size).toBe(plan.length);
    });
  });

  test("a document's id is unique in its site, except for repeats", () => {
    check((plan) => {
      const first = plan.filter(({ kind }) => kind !== "same-again");
      const ids = new Set(first.map(({ site, document }) => `${site} ${document}`));
      expect(ids.size).toBe(first.length);
    });
  });

  test("a copy repeats an earlier text that is archived; a repeat also has its id", () => {
    check((plan) => {
      for (const [index, copy] of plan.entries()) {
        if (copy.copyOf === null) continue;
        const original = plan[copy.copyOf]!;
        expect(copy.copyOf).toBeLessThan(index);
        expect(original.expected.state).toBe("ARCHIVED");
        expect(renderText(copy)).toEqual(renderText(original));
        const sameId = copy.site === original.site && copy.document === original.document;
        expect(sameId).toBe(copy.kind === "same-again");
      }
    });
  });

  test("there is at most one bomb, and every rejected document has a code", () => {
    check((plan) => {
      expect(countKind(plan, "bomb")).toBeLessThanOrEqual(1);
      for (const { expected } of plan) {
        expect(expected.code !== null).toBe(expected.state === "REJECTED");
      }
    });
  });
});
