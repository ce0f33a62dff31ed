/** Draws from a seed. */
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";

export class Draw {
  readonly #random: SeededRandom;

  constructor(seed: number) {
    this.#random = new SeededRandom(seed);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#random.next() * choices.length)] as T;
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }

  /** A whole number in [0, limit). */
  below(limit: number): number {
    return Math.floor(this.#random.next() * limit);
  }

  /**
   * Each order of magnitude is equally likely: short histories show other failures than long ones.
   */
  spread(min: number, max: number): number {
    return Math.round(min * (max / min) ** this.#random.next());
  }

  /** Keeps each one with this probability, and always at least one. */
  some<T>(choices: readonly T[], probability: number): readonly T[] {
    const kept = choices.filter(() => this.chance(probability));
    return kept.length > 0 ? kept : [this.pick(choices)];
  }
}
