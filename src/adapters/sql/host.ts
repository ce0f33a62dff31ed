/**
 * Identifies a process on a boot of a host. Processes on the same host can see that another one is
 * gone: its leases need not expire, and can be given to other workers at once.
 */
import { readFileSync, readlinkSync } from "node:fs";

export interface Host {
  /** Changes with every boot: monotonic times of another boot mean nothing. */
  readonly bootId: string;
  /** A description of this process that `isGone` understands in any process of the host. */
  readonly process: string;
  /**
   * True only when that process is certainly dead. In doubt it counts as alive, and its lease
   * expires.
   */
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
      // A process on another host or in another container has its own numbers: its state is unknown
      // here.
      if (theirBoot !== bootId || bootId === "unknown") return false;
      if (theirNamespace !== namespace || namespace === "?" || ticks === "?") return false;
      return readStartTicks(Number(pid)) !== ticks;
    },
  };
}

/** The start time of a process, which distinguishes it from a later one with the same number. */
function readStartTicks(pid: number): string | null {
  const stat = readText(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in brackets may contain spaces and brackets; the fields after it do not.
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
