/** A program of the operating system, which is installed if it is missing and that is permitted. */
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * One test file at a time: apt waits for other installations, but not for other readers of its
 * lists.
 */
const LOCK = join(tmpdir(), "sluice-apt.lock");
/** The lists of a fresh machine are missing or old: then they are read first. */
const INSTALL = `
  get() { apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=60 "$1"; }
  get "$1" || { apt-get update && get "$1"; }`;

/** From a Debian package; throws with the reason and the fix if that is impossible. */
export function installProgram(program: string, packageName: string, isThere = hasProgram): void {
  if (isThere(program)) return;
  const why = process.getuid?.() === 0 ? install(packageName) : "only root may install it";
  if (isThere(program)) return;
  throw new Error(
    `these tests need ${program}, which is missing and could not be installed: run \`apt-get install ${packageName}\` as root\n${why}`,
  );
}

/** The output of apt, to explain why the program is missing. */
function install(packageName: string): string {
  const words = [LOCK, "sh", "-c", INSTALL, "sh", packageName];
  const { error, stdout, stderr } = spawnSync("flock", words, {
    encoding: "utf8",
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  return error?.message ?? `${stdout}${stderr}`.trim();
}

function hasProgram(program: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;
}
