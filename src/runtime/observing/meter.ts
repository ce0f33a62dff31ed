/**
 * What a worker counts about itself, as plain numbers that the metrics page reads on request.
 * Outcomes are counted when the store has accepted them, so a lost lease counts nothing. Only a
 * histogram's bucket is updated for each item; all else once a report.
 */
import type { ReportResult } from "../../core/batch/chunk.ts";
import type { OutcomeDelta } from "../../core/batch/counts.ts";
import { DurationHistogram } from "../../core/base/histogram.ts";
import type { ItemRefusal } from "../../core/items/item-commit.ts";
import {
  countOutcomes,
  getOutcome,
  type OutcomeMap,
  SKIPPED,
} from "../../core/items/outcome-map.ts";
import type { Report } from "../../ports/store/worker-store.ts";

/** What was already counted of a chunk: of two reports about it only the difference is new. */
export interface RunMark {
  readonly leasedAt: number;
  succeeded: number;
  skipped: number;
  failed: number;
}

export function markRun(outcomes: OutcomeMap, leasedAt: number): RunMark {
  return { leasedAt, ...countOutcomes(outcomes) };
}

export class StepMeter {
  readonly pipeline: string;
  readonly step: string;
  readonly items = new DurationHistogram();
  readonly chunks = new DurationHistogram();
  succeeded = 0;
  skipped = 0;
  failed = 0;
  retries = 0;
  leasesLost = 0;

  constructor(pipeline: string, step: string) {
    this.pipeline = pipeline;
    this.step = step;
  }

  /** The store has answered a report. */
  noteReport(
    mark: RunMark,
    report: Report,
    result: ReportResult,
    refused: readonly ItemRefusal[],
    now: number,
  ): void {
    if (result === "lost") return;
    const { succeeded, skipped, failed } = countTaken(report, refused);
    this.succeeded += succeeded - mark.succeeded;
    this.skipped += skipped - mark.skipped;
    this.failed += failed - mark.failed;
    Object.assign(mark, { succeeded, skipped, failed });
    for (const { retryInMs } of report.failures) if (retryInMs !== null) this.retries++;
    for (const { dead } of refused) if (!dead) this.retries++;
    if (result !== "kept") this.chunks.observe(now - mark.leasedAt);
  }
}

/**
 * The outcomes that the store accepted: items whose statements failed have another outcome than
 * reported.
 */
function countTaken({ outcomes }: Report, refused: readonly ItemRefusal[]): OutcomeDelta {
  const counted = countOutcomes(outcomes);
  if (refused.length === 0) return counted;
  let { succeeded, skipped, failed } = counted;
  for (const { index, dead } of refused) {
    if (getOutcome(outcomes, index) === SKIPPED) skipped--;
    else succeeded--;
    if (dead) failed++;
  }
  return { succeeded, skipped, failed };
}

export class Meter {
  readonly #steps = new Map<string, StepMeter>();
  /** Store calls that failed, including those whose retry succeeded. */
  storeErrors = 0;

  /** Grows only with the steps of the engine's pipelines. */
  step(pipeline: string, step: string): StepMeter {
    const name = JSON.stringify([pipeline, step]);
    const known = this.#steps.get(name) ?? new StepMeter(pipeline, step);
    this.#steps.set(name, known);
    return known;
  }

  list(): StepMeter[] {
    return [...this.#steps.values()];
  }
}
