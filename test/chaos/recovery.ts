/** How long it takes until another process runs the items that a killed process was running. */
import type { Run } from "./black-box/run-log.ts";
import type { Kill } from "./crew.ts";

export interface Recovery {
  readonly process: string;
  readonly chunk: number;
  /** Null if no process took the chunk again. */
  readonly tookMs: number | null;
}

/** One entry for each chunk in which a killed process had started items and not ended them. */
export function measureRecoveries(
  runs: readonly Run[],
  kills: readonly Kill[],
  chunkSize: number,
): Recovery[] {
  const byChunk = Map.groupBy(runs, ({ item }) => Math.floor(item / chunkSize));
  const unended = Map.groupBy(
    runs.filter(({ endAt }) => endAt === null),
    ({ process }) => process,
  );
  return kills.flatMap(({ process, at }) => {
    const items = (unended.get(process) ?? []).map(({ item }) => item);
    const chunks = new Set(items.map((item) => Math.floor(item / chunkSize)));
    return [...chunks].map((chunk) => {
      const next = byChunk.get(chunk)?.find((run) => run.process !== process && run.startAt > at);
      return { process, chunk, tookMs: next === undefined ? null : next.startAt - at };
    });
  });
}

export function describeRecoveries(recoveries: readonly Recovery[]): string {
  const times = recoveries.map(({ tookMs }) => tookMs ?? Infinity).toSorted((a, b) => a - b);
  const at = (share: number): string =>
    `${Math.round(times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0)} ms`;
  return `${times.length} chunks taken up again after ${at(0.5)} (half of them), ${at(0.95)} (95 %), ${at(1)} (all)`;
}
