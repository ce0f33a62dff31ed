/**
 * Sends reports on chunks to the store. A chunk has at most one report under way: two at once would
 * report some outcomes twice and others never.
 */
import type { ReportResult } from "../../core/batch/chunk.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Report, WorkResult } from "../../ports/store/worker-store.ts";
import type { ChunkRun } from "./chunk-run.ts";

export interface PendingReport {
  readonly run: ChunkRun;
  readonly report: Report;
}

export function makeReport(run: ChunkRun, intent: Report["intent"]): PendingReport {
  return { run, report: run.makeReport(intent) };
}

export interface FlushSettings {
  readonly flushMs: number;
  readonly flushItems: number;
}

/** Partial reports that are due by now, and when the next one is. */
export function collectFlushes(
  held: readonly ChunkRun[],
  guarded: ReadonlySet<ChunkRun>,
  now: number,
  { flushMs, flushItems }: FlushSettings,
): { readonly pending: readonly PendingReport[]; readonly nextAt: number } {
  const pending: PendingReport[] = [];
  let nextAt = Number.POSITIVE_INFINITY;
  for (const run of held) {
    if (run.unreported === 0 || run.finished || run.lost || run.reporting !== null) continue;
    // A guarded run sends its own reports, except when a handler waits for its checkpoint.
    if (guarded.has(run) && !run.isUrgent) continue;
    const flushAt = run.reportedAt + flushMs;
    const isDue = now >= flushAt || run.unreported >= flushItems || run.isUrgent;
    if (isDue) pending.push(makeReport(run, "keep"));
    else nextAt = Math.min(nextAt, flushAt);
  }
  return { pending, nextAt };
}

/**
 * Sends reports and notes the answers before the next report on these chunks is made. A report that
 * was made in between would repeat the same outcomes, and drop newer ones in their place.
 */
export async function sendReports(
  pending: readonly PendingReport[],
  clock: Clock,
  act: (reports: readonly Report[]) => Promise<WorkResult>,
): Promise<WorkResult> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const { run } of pending) run.reporting = promise;
  try {
    const result = await act(pending.map(({ report }) => report));
    const now = clock.monotonicMs();
    for (const [at, { run, report }] of pending.entries()) {
      const refused = result.refused?.filter((refusal) => refusal.report === at);
      run.markReported(report, result.reports[at] ?? "lost", now, refused);
    }
    return result;
  } finally {
    for (const { run } of pending) run.reporting = null;
    resolve();
  }
}

export interface StartReporters {
  readonly store: Pick<Store, "work">;
  readonly clock: Clock;
  readonly onEnded: (batches: readonly string[]) => void;
}

/** Reports at once what a guarded run knows, and which items it is about to start. */
export async function reportStarts(
  run: ChunkRun,
  { store, clock, onEnded }: StartReporters,
): Promise<ReportResult> {
  while (run.reporting !== null) await run.reporting;
  const { reports, ended } = await sendReports([makeReport(run, "keep")], clock, (sent) =>
    store.work(sent, null),
  );
  if (ended.length > 0) onEnded(ended);
  return reports[0] ?? "lost";
}
