/** Keeps the latest full results in README.md, between two markers. */
import { readFileSync, writeFileSync } from "node:fs";

const readme = new URL("README.md", import.meta.url);
const begin = "<!-- results: begin (written by `node bench/main.ts heart --save`) -->";
const end = "<!-- results: end -->";

export function saveResults(report: string): void {
  const text = readFileSync(readme, "utf8");
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from === -1 || to < from) {
    throw new Error(`bench/README.md has lost its markers "${begin}" and "${end}"`);
  }
  writeFileSync(readme, `${text.slice(0, from + begin.length)}\n${report}${text.slice(to)}`);
}
