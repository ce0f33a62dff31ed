/** Programs of the operating system that a test needs: there or not, permitted or not. */
import { spawnSync } from "node:child_process";

/** Null when it did what it was asked; else why not, in its own words. */
export function trySystemProgram(program: string, ...args: readonly string[]): string | null {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return null;
  const why = error?.message ?? stderr.trim();
  return why === "" ? `${program} ended with ${String(status)}` : why;
}
