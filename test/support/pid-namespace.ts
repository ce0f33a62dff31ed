/**
 * A PID namespace for a program, as in a container: other processes of the host cannot see whether
 * it lives, so its chunks come back only when its lease has expired.
 */
import { trySystemProgram } from "./system-program.ts";

const SECLUDED = ["unshare", "--pid", "--fork", "--kill-child"] as const;

/** The command line before a program for that; empty, with a warning, where it is not permitted. */
export function seclude(): readonly string[] {
  const [program, ...args] = SECLUDED;
  const problem = trySystemProgram(program, ...args, "true");
  if (problem === null) return SECLUDED;
  console.log(`PID namespaces cannot be created here: ${problem}`);
  return [];
}
