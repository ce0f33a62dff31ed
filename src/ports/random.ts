/** Randomness, as a port so that a simulated world can replay it from a seed. */
export interface Random {
  /** A number in [0, 1), for jitter. */
  next(): number;
  /** A unique identifier: 12 characters of `a-z` and `2-7`. */
  id(): string;
}
