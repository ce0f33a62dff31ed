/** The summary has a row for each site, their sums, and the reasons for rejections. */
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import type { SiteSummary } from "../summary.ts";
import { formatSummary } from "./summary-table.ts";

const makeSite = (site: string, more: Partial<SiteSummary> = {}): SiteSummary => ({
  site,
  batch: "b-1",
  state: "succeeded",
  documents: 10,
  archived: 8,
  deduped: 1,
  rejected: 1,
  cancelled: 0,
  pages: 1_234,
  scans: 2,
  codes: new Map(),
  kept: 0,
  ...more,
});

const format = (...sites: SiteSummary[]): string[] =>
  stripVTControlCharacters(formatSummary(sites)).split("\n");

test("sites are rows, with numbers to the right and sums at the end", () => {
  const codes = new Map([["EMPTY", 1]]);
  const rows = format(
    makeSite("a"),
    makeSite("site-02", { codes, state: "completed_with_errors" }),
  );
  expect(rows).toEqual([
    "SITE     DOCUMENTS  ARCHIVED  REPEATED  REJECTED  PAGES  SCANS  ENDED",
    "a               10         8         1         1   1234      2  succeeded",
    "site-02         10         8         1         1   1234      2  completed_with_errors",
    "all             20        16         2         2   2468      4",
    "",
    "REJECTED AS  DOCUMENTS  WHY",
    "EMPTY                1  it has no bytes",
  ]);
});

test("without a rejection there is only one table", () => {
  expect(format(makeSite("a")).length).toBe(3);
});

test("an unknown code has no explanation, whatever its name", () => {
  const codes = new Map([
    ["ENOSPC", 2],
    ["toString", 1],
  ]);
  expect(format(makeSite("a", { codes })).slice(-2)).toEqual([
    "ENOSPC               2",
    "toString             1",
  ]);
});
