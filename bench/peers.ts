/** Installs the peers that Sluice is measured against, from bench/package-lock.json, when they are missing. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
/** npm writes this file last, so an interrupted installation does not count. */
const installedMark = new URL("node_modules/.package-lock.json", import.meta.url);

export function installPeers(onProgress: (text: string) => void): void {
  if (existsSync(installedMark)) return;
  onProgress("installing the peers (npm ci in bench/)");
  // npm's own output goes to standard error, so that --json stays JSON.
  const { status, error } = spawnSync("npm", ["ci"], {
    cwd: folder,
    stdio: ["ignore", process.stderr, process.stderr],
    shell: process.platform === "win32",
  });
  if (status !== 0) {
    const cause = error?.message ?? `exit code ${status}`;
    onProgress(`npm ci failed (${cause}): the peers will be listed as not measured`);
  }
}
