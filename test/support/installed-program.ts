/** A program of the operating system, which is installed where it is missing and may be. */
import { spawnSync } from "node:child_process";
import { trySystemProgram } from "./system-program.ts";

/** From a package of Debian's; throws with the remedy where neither is possible. */
export function installProgram(program: string, packageName: string, isThere = hasProgram): void {
  if (isThere(program)) return;
  const install = ["install", "-y", "-o", "DPkg::Lock::Timeout=60", packageName];
  if (process.getuid?.() === 0 && trySystemProgram("apt-get", ...install) !== null) {
    trySystemProgram("apt-get", "update");
    trySystemProgram("apt-get", ...install);
  }
  if (isThere(program)) return;
  throw new Error(
    `these tests need ${program}, which is not there and could not be installed: run \`apt-get install ${packageName}\` as root`,
  );
}

function hasProgram(program: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;
}
