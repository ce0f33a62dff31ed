/** Thrown inside the verifier at the first thing that is wrong; it becomes a verdict, never a crash. */
export class BrokenExport extends Error {
  override readonly name = "BrokenExport";
}

/** Where a million items pass, words are only made when they are needed. */
export function refuse(why: string): never {
  throw new BrokenExport(why);
}

export function ensure(condition: boolean, why: string): asserts condition {
  if (!condition) refuse(why);
}
