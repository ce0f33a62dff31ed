/**
 * Telling the store about chunks. Of one chunk there is one report on its way at a time: two at
 * once would tell some things twice and others never.
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

/** What chunks that are long at it have to tell by now, and when to look again. */
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
    // A guarded run tells by itself, but for a handler that waits to hear that it was told.
    if (guarded.has(run) && !run.isUrgent) continue;
    const flushAt = run.reportedAt + flushMs;
    const tells = now >= flushAt || run.unreported >= flushItems || run.isUrgent;
    if (tells) pending.push(makeReport(run, "keep"));
    else nextAt = Math.min(nextAt, flushAt);
  }
  return { pending, nextAt };
}

/**
 * Tells the store, and notes its answers before anybody makes the next report of these chunks: one
 * that was made in between would tell the same things again, and forget newer ones for them.
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

/** Tells the store at once what a guarded run knows, and which items it is about to start. */
export async function reportStarts(
  run: ChunkRun,
  { store, clock, onEnded }: StartReporters,
): Promise<ReportResult> {
  while (run.reporting !== null) await run.reporting;
  const { reports, ended } = await sendReports([makeReport(run, "keep")], clock, (told) =>
    store.work(told, null),
  );
  if (ended.length > 0) onEnded(ended);
  return reports[0] ?? "lost";
}
