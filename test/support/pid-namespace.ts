/**
 * Process ids of its own for a program, as in a container: others on the host cannot see whether it
 * lives, so what it holds comes back only when its lease has run out.
 */
import { trySystemProgram } from "./system-program.ts";

const SECLUDED = ["unshare", "--pid", "--fork", "--kill-child"] as const;

/** What is put before a program for that; nothing, and a word about it, where it is not permitted. */
export function seclude(): readonly string[] {
  const [program, ...args] = SECLUDED;
  const problem = trySystemProgram(program, ...args, "true");
  if (problem === null) return SECLUDED;
  console.log(`all processes see each other here, as they cannot be secluded: ${problem}`);
  return [];
}
