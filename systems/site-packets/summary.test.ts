/** The result of a site's batch, from its counts, dead letters and results. */
import type { BatchHandle } from "sluice";
import { expect, test } from "vitest";
import { countCodes, type SiteSummary, summarizeSite } from "./summary.ts";

const counts = (more: object) => ({
  counts: { planned: 0, succeeded: 0, skipped: 0, failed: 0, cancelled: 0, pending: 0, ...more },
});

function makeHandle(
  steps: readonly object[],
  codes: readonly string[],
  results: readonly object[],
): BatchHandle {
  return {
    progress: async () => ({ batch: "b-1", state: "completed_with_errors", steps }),
    deadLetters: async function* () {
      for (const code of codes) yield { code };
    },
    results: async function* (step: string) {
      expect(step).toBe("archive");
      for (const value of results) yield { value };
    },
  } as unknown as BatchHandle;
}

test("every document of a site is in one of the columns", async () => {
  const handle = makeHandle(
    [
      counts({ planned: 10, succeeded: 7, failed: 2, cancelled: 1 }),
      counts({ planned: 7, succeeded: 2, skipped: 1, failed: 3, cancelled: 1 }),
    ],
    ["EMPTY", "ENCRYPTED", "EMPTY", "EMPTY", "DOWNLOAD_FAILED"],
    [
      { pages: 3, textFrom: "pdf" },
      { pages: 4, textFrom: "ocr" },
    ],
  );
  const summary = await summarizeSite("a", handle);
  expect(summary).toEqual({
    site: "a",
    batch: "b-1",
    state: "completed_with_errors",
    documents: 10,
    archived: 2,
    deduped: 1,
    rejected: 5,
    cancelled: 2,
    pages: 7,
    scans: 1,
    codes: new Map([
      ["EMPTY", 3],
      ["ENCRYPTED", 1],
      ["DOWNLOAD_FAILED", 1],
    ]),
    kept: 4,
  });
  const { documents, archived, deduped, rejected, cancelled } = summary;
  expect(archived + deduped + rejected + cancelled).toBe(documents);
});

test("a batch that ended before its second step has a summary too", async () => {
  const handle = makeHandle([counts({ planned: 2, cancelled: 2 })], [], []);
  expect(await summarizeSite("a", handle)).toMatchObject({
    documents: 2,
    archived: 0,
    cancelled: 2,
  });
});

test("codes of all sites are added, the most frequent first", () => {
  const site = (...codes: [string, number][]): SiteSummary =>
    ({ codes: new Map(codes) }) as unknown as SiteSummary;
  const sites = [site(["B", 1], ["A", 2]), site(["C", 3], ["B", 1])];
  expect(countCodes(sites)).toEqual([
    ["C", 3],
    ["A", 2],
    ["B", 2],
  ]);
  expect(countCodes([])).toEqual([]);
});
