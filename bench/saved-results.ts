/** Keeps the latest full results of each set of questions in README.md, between two markers. */
import { readFileSync, writeFileSync } from "node:fs";

const readme = new URL("README.md", import.meta.url);
const end = "<!-- results: end -->";

/** Finds a set's results before measuring: a missing marker must not waste a run of minutes. */
export function openSavedResults(set: string): (report: string) => void {
  findResults(set);
  return (report) => {
    const { before, after } = findResults(set);
    writeFileSync(readme, `${before}\n${report}${after}`);
  };
}

function findResults(set: string): { readonly before: string; readonly after: string } {
  const text = readFileSync(readme, "utf8");
  const begin = `<!-- results: begin (written by \`node bench/main.ts ${set} --save\`) -->`;
  const from = text.indexOf(begin);
  const to = text.indexOf(end, from);
  if (from === -1 || to === -1) {
    throw new Error(`bench/README.md lacks its markers "${begin}" and "${end}"`);
  }
  return { before: text.slice(0, from + begin.length), after: text.slice(to) };
}
