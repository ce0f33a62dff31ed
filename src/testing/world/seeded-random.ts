/** Randomness that a test can replay: the same seed gives the same numbers and the same ids. */
import type { Random } from "../../ports/random.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
const ID_CHARS = 12;

export class SeededRandom implements Random {
  #state: number;

  constructor(seed = 1) {
    this.#state = seed >>> 0;
  }

  /** Mulberry32: small, and uniform enough for jitter and ids. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  id(): string {
    return Array.from({ length: ID_CHARS }, () => ALPHABET[Math.floor(this.next() * 32)]).join("");
  }
}
