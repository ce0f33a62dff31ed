/** Keeps the latest full results of each set of questions in README.md, between two markers. */
import { readFileSync, writeFileSync } from "node:fs";

const readme = new URL("README.md", import.meta.url);
const end = "<!-- results: end -->";

export function saveResults(set: string, report: string): void {
  const text = readFileSync(readme, "utf8");
  const begin = `<!-- results: begin (written by \`node bench/main.ts ${set} --save\`) -->`;
  const from = text.indexOf(begin);
  const to = text.indexOf(end, from);
  if (from === -1 || to === -1) {
    throw new Error(`bench/README.md has lost its markers "${begin}" and "${end}"`);
  }
  writeFileSync(readme, `${text.slice(0, from + begin.length)}\n${report}${text.slice(to)}`);
}
