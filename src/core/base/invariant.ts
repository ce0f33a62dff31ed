/**
 * Guards against our own mistakes: whatever they throw is a bug in Sluice, never a user's error.
 */

export class InvariantError extends Error {
  override readonly name = "InvariantError";
}

/** Throws when a condition that the code relies on does not hold. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(`broken invariant: ${message}`);
}

/** Ends a switch that must cover every case; the compiler refuses it when one is missing. */
export function unreachable(value: never): never {
  throw new InvariantError(`unreachable value: ${String(value)}`);
}
