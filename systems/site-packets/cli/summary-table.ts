/** The summary of a run, for people: a table by site, and one by the code of rejections. */
import { outColours } from "./colours.ts";
import { REJECTION_CODES } from "../rejection.ts";
import { countCodes, type SiteSummary } from "../summary.ts";

export function formatSummary(sites: readonly SiteSummary[]): string {
  const columns = ["documents", "archived", "deduped", "rejected", "pages", "scans"] as const;
  const rows = sites.map((site) => [site.site, ...columns.map((name) => site[name]), site.state]);
  const sums = columns.map((name) => sites.reduce((sum, site) => sum + site[name], 0));
  const heads = [
    "SITE",
    "DOCUMENTS",
    "ARCHIVED",
    "REPEATED",
    "REJECTED",
    "PAGES",
    "SCANS",
    "ENDED",
  ];
  const codes = countCodes(sites).map(([code, count]) => [code, count, describeCode(code)]);
  return [
    formatTable([heads, ...rows, ["all", ...sums, ""]]),
    ...(codes.length === 0 ? [] : [formatTable([["REJECTED AS", "DOCUMENTS", "WHY"], ...codes])]),
  ].join("\n\n");
}

function describeCode(code: string): string {
  return Object.hasOwn(REJECTION_CODES, code)
    ? REJECTION_CODES[code as keyof typeof REJECTION_CODES]
    : "";
}

type Cell = string | number;

/** Numbers to the right, texts to the left; the first row is the header. */
function formatTable(rows: readonly (readonly Cell[])[]): string {
  const [heads = [], first = []] = rows;
  const widths = heads.map((_, at) => Math.max(...rows.map((row) => String(row[at]).length)));
  const isNumber = heads.map((_, at) => typeof first[at] === "number");
  const format = (row: readonly Cell[]): string =>
    row
      .map((cell, at) => {
        const width = widths[at] ?? 0;
        return isNumber[at] === true ? String(cell).padStart(width) : String(cell).padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return rows.map((row, at) => (at === 0 ? outColours.dim(format(row)) : format(row))).join("\n");
}
