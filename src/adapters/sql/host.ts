/**
 * Which process on which boot of which host. Whoever works on the same host as a process that is gone
 * can see that: its leases need not run out, but can be given to the next one at once.
 */
import { readFileSync, readlinkSync } from "node:fs";

export interface Host {
  /** Changes with every boot: monotonic times of another boot mean nothing. */
  readonly bootId: string;
  /** This process, in words that `isGone` understands in any process of the host. */
  readonly process: string;
  /** True only when that process is surely dead. When in doubt it lives, and its lease runs out. */
  isGone(process: string): boolean;
}

export function describeHost(): Host {
  const bootId = readText("/proc/sys/kernel/random/boot_id") ?? "unknown";
  const namespace = readPidNamespace();
  const self = `${bootId}/${namespace}/${process.pid}/${readStartTicks(process.pid) ?? "?"}`;
  return {
    bootId,
    process: self,
    isGone(other) {
      const [theirBoot, theirNamespace, pid, ticks] = other.split("/");
      // A process on another host or in another container has its own numbers: nothing can be said
      // of it here.
      if (theirBoot !== bootId || bootId === "unknown") return false;
      if (theirNamespace !== namespace || namespace === "?" || ticks === "?") return false;
      return readStartTicks(Number(pid)) !== ticks;
    },
  };
}

/** When a process started, which tells it from a later one with the same number. */
function readStartTicks(pid: number): string | null {
  const stat = readText(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in brackets may hold spaces and brackets itself; the fields after it do not.
  const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const STARTTIME = 18;
  return state === "Z" || state === "X" ? null : (fields[STARTTIME] ?? null);
}

function readPidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "?";
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
}
