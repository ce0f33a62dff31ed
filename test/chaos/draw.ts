/** Draws from a few values with a seed. */
import type { SeededRandom } from "../../src/testing/world/seeded-random.ts";

export function pick<T>(values: readonly T[], random: SeededRandom): T {
  return values[Math.floor(random.next() * values.length)]!;
}

export function shuffle<T>(values: readonly T[], random: SeededRandom): T[] {
  return values
    .map((value) => ({ value, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
