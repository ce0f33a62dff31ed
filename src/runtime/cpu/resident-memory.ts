/**
 * What processes hold in memory, seen from outside: one that is busy can be asked nothing. On Linux
 * the kernel is read directly, and what it has moved to a disk counts as well; elsewhere `ps` is
 * asked, and where there is none nothing is known.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";

const KIB = 1_024;

/** How often it is worth a look. */
export const LOOK_MS = process.platform === "linux" ? 100 : 1_000;

/** By process; those that are gone are left out. */
export async function readResidentBytes(
  pids: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  if (pids.length === 0) return new Map();
  return process.platform === "linux" ? readFromKernel(pids) : await askPs(pids);
}

function readFromKernel(pids: readonly number[]): Map<number, number> {
  const known = new Map<number, number>();
  for (const pid of pids) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "latin1");
      const held = [...status.matchAll(/^Vm(?:RSS|Swap):\s*(\d+) kB$/gm)];
      if (held.length > 0)
        known.set(pid, held.reduce((sum, [, kib]) => sum + Number(kib), 0) * KIB);
    } catch {
      // It has just ended.
    }
  }
  return known;
}

function askPs(pids: readonly number[]): Promise<Map<number, number>> {
  return new Promise((resolve) => {
    execFile("ps", ["-o", "pid=,rss=", "-p", pids.join(",")], (_error, output) => {
      // It also fails when one of them is gone; what it printed of the others stands.
      const rows = output.matchAll(/^\s*(\d+)\s+(\d+)\s*$/gm);
      resolve(new Map([...rows].map(([, pid, kib]) => [Number(pid), Number(kib) * KIB])));
    });
  });
}
