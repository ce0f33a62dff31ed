/**
 * Reads the memory of processes from outside, as a busy process cannot answer. On Linux it reads
 * /proc and counts swapped memory too. Elsewhere it asks `ps`; without `ps` nothing is known.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";

const KIB = 1_024;

/** Interval between two looks; `ps` costs a process each time. */
export const LOOK_MS = process.platform === "linux" ? 100 : 1_000;

/** Bytes by process id, without processes that have ended. */
export async function readResidentBytes(
  pids: readonly number[],
): Promise<ReadonlyMap<number, number>> {
  if (pids.length === 0) return new Map();
  return process.platform === "linux" ? readFromKernel(pids) : await runPs(pids);
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

function runPs(pids: readonly number[]): Promise<Map<number, number>> {
  return new Promise((resolve) => {
    execFile("ps", ["-o", "pid=,rss=", "-p", pids.join(",")], (_error, output) => {
      // `ps` also fails when one process is gone; its lines about the others are valid.
      const rows = output.matchAll(/^\s*(\d+)\s+(\d+)\s*$/gm);
      resolve(new Map([...rows].map(([, pid, kib]) => [Number(pid), Number(kib) * KIB])));
    });
  });
}
