/**
 * The machine on which the figures were measured, read at run time; nothing that names the machine
 * or its folders.
 */
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { availableParallelism, cpus, loadavg, platform, release, totalmem } from "node:os";
import { join, sep } from "node:path";

export interface MachineFacts {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGb: number;
  readonly system: string;
  /** Runnable processes in the last minute, before this run began. */
  readonly load: number;
  readonly node: string;
  readonly sqlite: string;
  /** The database server of the measurement, with the durability of its commits. */
  readonly server: string | null;
  readonly peers: string;
  readonly fileSystem: string;
  readonly syncMs: number;
  readonly warning: string | null;
}

const SYNC_SAMPLES = 100;
const SYNC_BYTES = 4_096;

/** `folder` is where the databases will be. */
export function readMachineFacts(folder: string, server: string | null): MachineFacts {
  const fileSystem = readFileSystemType(folder);
  const [loadNow = 0] = loadavg();
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? "unknown processor",
    memoryGb: Math.round(totalmem() / 1e9),
    system: `${platform()} ${release()}`,
    load: Number(loadNow.toFixed(1)),
    node: process.versions.node,
    sqlite: process.versions["sqlite"] ?? "unknown",
    server,
    peers: readPeerVersions(),
    fileSystem,
    syncMs: Number(measureSyncMs(folder).toPrecision(2)),
    warning:
      fileSystem === "tmpfs" || fileSystem === "ramfs"
        ? "The temporary folder is memory: FULL costs nothing there. Set TMPDIR to a folder on a disk."
        : null,
  };
}

/** The type of the mount with the longest matching path. */
function readFileSystemType(folder: string): string {
  if (platform() !== "linux") return "a file system of unknown type";
  const mounts = readFileSync("/proc/self/mounts", "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => line.split(" "))
    .map(([, point = "", type = ""]) => ({ point, type }))
    .filter(({ point }) => `${folder}${sep}`.startsWith(point === sep ? sep : `${point}${sep}`))
    .toSorted((a, b) => a.point.length - b.point.length);
  return mounts.at(-1)?.type ?? "a file system of unknown type";
}

function readPeerVersions(): string {
  const text = readFileSync(new URL("package.json", import.meta.url), "utf8");
  const { dependencies } = JSON.parse(text) as { dependencies: Record<string, string> };
  return Object.entries(dependencies)
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
}

/** Every durable commit costs one of these, so it explains most differences between machines. */
function measureSyncMs(folder: string): number {
  const file = openSync(join(folder, "sync-probe"), "w");
  const page = Buffer.alloc(SYNC_BYTES, 1);
  const samples: number[] = [];
  try {
    for (let sample = 0; sample < SYNC_SAMPLES; sample++) {
      const startedAt = performance.now();
      writeSync(file, page);
      fsyncSync(file);
      samples.push(performance.now() - startedAt);
    }
  } finally {
    closeSync(file);
  }
  return samples.toSorted((a, b) => a - b)[SYNC_SAMPLES >> 1] ?? Number.NaN;
}
