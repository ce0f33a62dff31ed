/** One line with the progress of a batch: with a bar on a terminal, in words elsewhere. */
import type { BatchState } from "../../core/batch/batch.ts";
import type { Counts } from "../../core/batch/counts.ts";
import type { Estimate } from "../../core/batch/progress.ts";
import { countRun } from "../../views/batch.ts";
import { formatRange } from "../output/format-duration.ts";
import { formatCount, formatPercent, formatRate } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { clipText, measureText } from "../output/text-width.ts";

export interface ProgressView {
  readonly state: BatchState;
  /** Counts of its current step. */
  readonly counts: Counts;
  readonly estimate: Estimate;
  /** "step 2 of 3, pages"; null for a single step. */
  readonly step: string | null;
  /** What keeps it from running; null while nothing does. */
  readonly hold: string | null;
}

const ECHO_COLUMNS = 3;
const BAR_COLUMNS_MIN = 8;
const BAR_COLUMNS_MAX = 30;

/** For pipes and logs. */
export function describeProgress(view: ProgressView): string {
  const { state, counts, estimate, step, hold } = view;
  const lead = step === null ? "" : `${step}: `;
  const done = countRun(counts);
  const share = `${formatCount(done)} of ${formatCount(counts.planned)} done (${formatPercent(done, counts.planned)})`;
  if (hold !== null) return `${makeInert(hold)}${counts.planned === 0 ? "" : `; ${lead}${share}`}`;
  if (isUnplanned(view)) return `${lead}${describeSlicing(state, counts)}`;
  return [
    `${lead}${share}`,
    ...(estimate.itemsPerSecond > 0 ? [formatRate(estimate.itemsPerSecond)] : []),
    ...(estimate.etaMs === null ? [] : [`ETA ${formatRange(estimate.etaMs)}`]),
    ...(counts.failed > 0 ? [`${formatCount(counts.failed)} failed`] : []),
  ].join(", ");
}

function isUnplanned({ state }: ProgressView): boolean {
  return state === "submitted" || state === "slicing";
}

function describeSlicing(state: BatchState, { planned }: Counts): string {
  if (state === "submitted") return "waiting to be sliced";
  return `slicing, ${formatCount(planned)} items so far`;
}

/** For a terminal: never wider than it. The least important parts are left out first. */
export function renderProgress(view: ProgressView, screen: Screen): string {
  const { counts, estimate, step, hold } = view;
  // Room for the ^C that a terminal echoes: on the next line it could not be drawn over.
  const room = screen.columns - ECHO_COLUMNS;
  if (hold !== null || isUnplanned(view)) return clipText(describeProgress(view), room);
  const { colours } = screen;
  const done = countRun(counts);
  const parts = [
    colours.bold(formatPercent(done, counts.planned).padStart(4)),
    `${formatCount(done)}/${formatCount(counts.planned)}`,
    ...(counts.failed > 0 ? [colours.red(`${formatCount(counts.failed)} failed`)] : []),
    ...(estimate.itemsPerSecond > 0 ? [colours.cyan(formatRate(estimate.itemsPerSecond))] : []),
    ...(estimate.etaMs === null ? [] : [colours.dim(`ETA ${formatRange(estimate.etaMs)}`)]),
    ...(step === null ? [] : [colours.dim(makeInert(step))]),
  ];
  while (parts.length > 1 && measureText(parts.join("  ")) > room) parts.pop();
  const text = parts.join("  ");
  const barColumns = Math.min(BAR_COLUMNS_MAX, room - measureText(text) - 2);
  if (barColumns < BAR_COLUMNS_MIN) return text;
  return `${renderBar(done, counts, barColumns, screen)}  ${text}`;
}

export function renderBar(done: number, counts: Counts, columns: number, screen: Screen): string {
  const { colours, unicode } = screen;
  const share = counts.planned === 0 ? 0 : done / counts.planned;
  const filled = Math.floor(share * columns);
  const [full, rest] = unicode ? ["━", "─"] : ["#", "."];
  const paint = counts.failed > 0 ? colours.yellow : colours.green;
  return paint(full.repeat(filled)) + colours.dim(rest.repeat(columns - filled));
}
