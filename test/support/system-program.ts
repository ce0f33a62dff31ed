/** Programs of the operating system that a test needs: whether they exist and are permitted. */
import { spawnSync } from "node:child_process";

/** Null on success; else the program's own message. */
export function trySystemProgram(program: string, ...args: readonly string[]): string | null {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return null;
  const why = error?.message ?? stderr.trim();
  return why === "" ? `${program} ended with ${String(status)}` : why;
}
