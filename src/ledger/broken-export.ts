/** Thrown inside the verifier at the first thing that is wrong; it becomes a verdict, never a crash. */
export class BrokenExport extends Error {
  override readonly name = "BrokenExport";
}

export function ensure(condition: boolean, why: string): asserts condition {
  if (!condition) throw new BrokenExport(why);
}
