/**
 * How much of a file stands in another one too. Comments, imports, `async`, `await`, `Promise`, the
 * transaction that is passed around and the two ways to write a parameter are left out, so that the
 * same code for two stores counts as the same.
 */

/** Shorter runs are alike by chance. */
const RUN_TOKENS = 5;

const TOKEN = /[A-Za-z_][\w]*|\d+|"[^"\n]*"|[^\s\w]/gu;
const NOISE = new Set(["async", "await", "Promise", "tx", "Transaction", "this", "readonly", "#"]);

function listTokens(text: string): string[] {
  const code = text
    .replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gmu, "")
    .replaceAll(/^import[\s\S]*?;$/gmu, "")
    .replaceAll(/\$\d+/gu, "?");
  return (code.match(TOKEN) ?? []).filter((token) => !NOISE.has(token));
}

function listRuns(text: string): string[] {
  const tokens = listTokens(text);
  return tokens.slice(RUN_TOKENS - 1).map((_, at) => tokens.slice(at, at + RUN_TOKENS).join(" "));
}

/** From 0 to 1: the share of the smaller file's runs of tokens that the other one has as well. */
export function measureAlike(one: string, other: string): number {
  const [small = [], large = []] = [listRuns(one), listRuns(other)].toSorted(
    (a, b) => a.length - b.length,
  );
  if (small.length === 0) return 0;
  const known = new Set(large);
  return small.filter((run) => known.has(run)).length / small.length;
}
