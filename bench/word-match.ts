/** How well a text was read: which of its words were found again, in any order. */

/** Exact, with case and punctuation: words are separated by white space. */
export function splitWords(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

/**
 * How many of the words were read, as multisets: a word that is expected twice and was read once is
 * found once; additional words that were read do not count.
 */
export function countFoundWords(expected: readonly string[], read: readonly string[]): number {
  const left = new Map<string, number>();
  for (const word of read) left.set(word, (left.get(word) ?? 0) + 1);
  let found = 0;
  for (const word of expected) {
    const copies = left.get(word) ?? 0;
    if (copies === 0) continue;
    left.set(word, copies - 1);
    found++;
  }
  return found;
}
