/**
 * The child's side of a measurement. A subject is a small script in `subjects/` that runs in a
 * fresh process with its options as one JSON argument, measures itself, and prints one JSON line. A
 * subject checks its own work (every item has an outcome in its store) before it answers: a fast
 * run that lost something is a failed run.
 */
import { readFileSync } from "node:fs";

/** Named numbers; the names end in their unit. */
export type Figures = Readonly<Record<string, number>>;

export type SubjectReply =
  | { readonly kind: "measured"; readonly figures: Figures }
  | { readonly kind: "failed"; readonly reason: string };

/** What every subject gets besides its own options. */
export interface SubjectPlace {
  /** A fresh folder on disk for its database, removed afterwards. */
  readonly folder: string;
  /** The address of a fresh database, if the subjects share a server. */
  readonly server?: string;
}

export async function runSubject<Options>(
  measure: (options: Options & SubjectPlace) => Promise<Figures>,
): Promise<void> {
  let reply: SubjectReply;
  try {
    const options = JSON.parse(process.argv[2] ?? "") as Options & SubjectPlace;
    const figures = await measure(options);
    reply = { kind: "measured", figures: { ...figures, peakRssMb: readPeakRssMb() } };
  } catch (error) {
    reply = { kind: "failed", reason: error instanceof Error ? error.message : String(error) };
    process.exitCode = 1;
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

/** The process's high-water mark so far, in units of 1,000,000 bytes. */
function readPeakRssMb(): number {
  if (process.platform === "linux") {
    // The kernel's own high-water mark of this address space, which began when the process started.
    const kib = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    if (kib !== undefined) return (Number(kib) * 1024) / 1e6;
  }
  return (process.resourceUsage().maxRSS * 1024) / 1e6;
}

/** Fails the run if the subject's store does not contain its work. */
export function checkCount(what: string, actual: number, expected: number): void {
  if (actual !== expected) throw new Error(`${what}: ${actual}, but it should be ${expected}`);
}

export function elapsedSeconds(startedAt: number): number {
  return (performance.now() - startedAt) / 1000;
}

/** The value below which a share of the samples lies (nearest rank). */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const rank = Math.max(1, Math.ceil(share * sorted.length));
  return sorted[rank - 1] ?? Number.NaN;
}
