/** One line that says how far a batch is: with a bar on a terminal, in words elsewhere. */
import type { BatchState } from "../core/batch.ts";
import type { Counts } from "../core/counts.ts";
import type { Estimate } from "../core/progress.ts";
import { countRun } from "./batch-view.ts";
import { formatRange } from "./format-duration.ts";
import { formatCount, formatPercent, formatRate } from "./format-number.ts";
import type { Screen } from "./screen.ts";
import { clipText, measureText } from "./text-width.ts";

export interface ProgressView {
  readonly state: BatchState;
  readonly counts: Counts;
  readonly estimate: Estimate;
}

const ECHO_COLUMNS = 3;
const BAR_COLUMNS_MIN = 8;
const BAR_COLUMNS_MAX = 30;

/** For pipes and logs. */
export function describeProgress({ state, counts, estimate }: ProgressView): string {
  const done = countRun(counts);
  if (state === "submitted") return "waiting to be sliced";
  if (state === "slicing") return `slicing, ${formatCount(counts.planned)} items so far`;
  return [
    `${formatCount(done)} of ${formatCount(counts.planned)} done (${formatPercent(done, counts.planned)})`,
    ...(estimate.itemsPerSecond > 0 ? [formatRate(estimate.itemsPerSecond)] : []),
    ...(estimate.etaMs === null ? [] : [`ETA ${formatRange(estimate.etaMs)}`]),
    ...(counts.failed > 0 ? [`${formatCount(counts.failed)} failed`] : []),
  ].join(", ");
}

/** For a terminal: never wider than it. What matters least is left out where there is no room. */
export function renderProgress(view: ProgressView, screen: Screen): string {
  const { state, counts, estimate } = view;
  // Room for the ^C that a terminal echoes: on the next line it could not be drawn over.
  const room = screen.columns - ECHO_COLUMNS;
  if (state === "submitted" || state === "slicing") return clipText(describeProgress(view), room);
  const { colours } = screen;
  const done = countRun(counts);
  const parts = [
    colours.bold(formatPercent(done, counts.planned).padStart(4)),
    `${formatCount(done)}/${formatCount(counts.planned)}`,
    ...(counts.failed > 0 ? [colours.red(`${formatCount(counts.failed)} failed`)] : []),
    ...(estimate.itemsPerSecond > 0 ? [colours.cyan(formatRate(estimate.itemsPerSecond))] : []),
    ...(estimate.etaMs === null ? [] : [colours.dim(`ETA ${formatRange(estimate.etaMs)}`)]),
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
