/**
 * A chunk's outcomes as words, one an item, for tests. Written separately from core's own map (two
 * bits an item, item i at bit 2i of the little-endian whole), so that a mistake there is found.
 */
export const WORDS = ["pending", "succeeded", "skipped", "failed"] as const;
export type Word = (typeof WORDS)[number];

export function toWords(map: Uint8Array, items: number): Word[] {
  return Array.from({ length: items }, (_, item) => {
    const fourth = map[Math.floor(item / 4)] ?? 0;
    return WORDS[Math.floor(fourth / 4 ** (item % 4)) % 4] ?? "pending";
  });
}

export function toMap(words: readonly Word[]): Uint8Array {
  const map = new Uint8Array(Math.ceil(words.length / 4));
  for (const [item, word] of words.entries()) {
    const place = Math.floor(item / 4);
    map[place] = (map[place] ?? 0) + WORDS.indexOf(word) * 4 ** (item % 4);
  }
  return map;
}
