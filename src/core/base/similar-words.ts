/** "Did you mean ...?": the known words that a mistyped one is close to. */

const SUGGESTIONS_MAX = 3;

/** The closest words first; at most a third of the letters may differ. */
export function findSimilar(word: string, known: Iterable<string>): string[] {
  const close: { readonly word: string; readonly distance: number }[] = [];
  for (const candidate of known) {
    const allowed = Math.max(1, Math.floor(Math.max(word.length, candidate.length) / 3));
    const distance = computeDistance(word.toLowerCase(), candidate.toLowerCase(), allowed);
    if (distance <= allowed) close.push({ word: candidate, distance });
  }
  return close
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, SUGGESTIONS_MAX)
    .map((one) => one.word);
}

/** "Did you mean a, b or c?", or an empty text. */
export function formatDidYouMean(similar: readonly string[]): string {
  const last = similar.at(-1);
  if (last === undefined) return "";
  const rest = similar.slice(0, -1).join(", ");
  return `Did you mean ${rest === "" ? last : `${rest} or ${last}`}?`;
}

/** Edit distance between two words; swapping two neighbours is one edit. Gives up above `limit`. */
function computeDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      let cost = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && swapped) {
        cost = Math.min(cost, (beforeLast[column - 2] ?? 0) + 1);
      }
      current.push(cost);
    }
    if (Math.min(...current) > limit) return limit + 1;
    beforeLast = last;
    last = current;
  }
  return last[b.length] ?? 0;
}
