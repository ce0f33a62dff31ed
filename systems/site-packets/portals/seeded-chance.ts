/**
 * Randomness as a function of a seed and of the decision: `computeChance(7, "fault", path, 2)` is
 * the same number in every process and in any order of calls. A sequential generator would not do,
 * because the order of requests is not fixed.
 */

type KeyPart = string | number;

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a over the parts, each ended by a separator so that ("ab", "c") is not ("a", "bc"). */
function hashParts(seed: number, parts: readonly KeyPart[]): number {
  let hash = FNV_OFFSET;
  for (const part of [seed, ...parts]) {
    const text = `${part}\u0000`;
    for (let index = 0; index < text.length; index++) {
      hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME);
    }
  }
  return hash >>> 0;
}

/** Mulberry32's last step: FNV alone gives similar values for neighbours ("1.pdf", "2.pdf"). */
function mixBits(state: number): number {
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return (mixed ^ (mixed >>> 14)) >>> 0;
}

/** A whole number of 32 bits. */
export function computeSeed(seed: number, ...parts: readonly KeyPart[]): number {
  return mixBits(hashParts(seed, parts));
}

/** A number from 0 to below 1. */
export function computeChance(seed: number, ...parts: readonly KeyPart[]): number {
  return computeSeed(seed, ...parts) / 2 ** 32;
}

/** A sequence for things that are made at once and always in the same order: a page, an image. */
export class ChanceSequence {
  #state: number;

  constructor(seed: number, ...parts: readonly KeyPart[]) {
    this.#state = computeSeed(seed, ...parts);
  }

  /** From 0 to below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    return mixBits(this.#state) / 2 ** 32;
  }

  /** A whole number from `least` to `most`, both included. */
  pickNumber(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  pickOne<Choice>(choices: readonly [Choice, ...Choice[]]): Choice {
    return choices[Math.floor(this.next() * choices.length)] ?? choices[0];
  }
}

/** The same things in another order (Fisher and Yates). */
export function shuffle<Thing>(things: readonly Thing[], sequence: ChanceSequence): Thing[] {
  const shuffled = [...things];
  for (let last = shuffled.length - 1; last > 0; last--) {
    const other = sequence.pickNumber(0, last);
    const moved = shuffled[last] as Thing;
    shuffled[last] = shuffled[other] as Thing;
    shuffled[other] = moved;
  }
  return shuffled;
}
