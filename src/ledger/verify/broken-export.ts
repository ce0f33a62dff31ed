/** Thrown inside the verifier at the first problem; it becomes a verdict, never a crash. */
export class BrokenExport extends Error {
  override readonly name = "BrokenExport";
}

/** For a million items, texts are made only when they are needed. */
export function refuse(why: string): never {
  throw new BrokenExport(why);
}

export function ensure(condition: boolean, why: string): asserts condition {
  if (!condition) refuse(why);
}
