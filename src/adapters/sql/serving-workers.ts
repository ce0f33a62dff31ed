/** Counts the living workers of each pipeline. */
import type { Host } from "./host.ts";

/** A worker that has a pipeline, one row for each pipeline. */
export interface ServingRow {
  readonly pipeline: string;
  readonly id: number;
  readonly process: string;
}

export function countWorkers(
  rows: readonly ServingRow[],
  host: Host,
): { readonly pipeline: string; readonly workers: number }[] {
  const living = rows.filter(({ process }) => !host.isGone(process));
  return [...Map.groupBy(living, ({ pipeline }) => pipeline)].map(([pipeline, workers]) => ({
    pipeline,
    workers: workers.length,
  }));
}
