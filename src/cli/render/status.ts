/** One batch for a person: its names, counts, steps and events. */
import { redactText } from "../../core/base/redact.ts";
import { isEnded } from "../../core/batch/batch.ts";
import { computeEstimate } from "../../core/batch/progress.ts";
import { countRun } from "../../views/batch.ts";
import { describeWho } from "../../views/hold.ts";
import type { EventView, StatusView } from "../../views/status.ts";
import { formatDuration, formatInstantShort, formatRange } from "../output/format-duration.ts";
import { formatCount, formatPercent, formatRate } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, type Fact, renderFacts, renderTable } from "../output/table.ts";
import { clipText } from "../output/text-width.ts";
import { nameFailed } from "./batch-summary.ts";
import { renderHeading, renderReason } from "./batch-words.ts";
import { listAbandoned } from "./cancel-report.ts";
import { renderBar } from "./progress-line.ts";
import { renderSteps } from "./steps.ts";

const BAR_COLUMNS = 30;
const INPUT_COLUMNS = 60;

export interface StatusWords {
  /** What keeps the batch from running. */
  readonly waits: string | null;
  /** "step 2 of 3, pages" */
  readonly stepTurn: string | null;
  /** As it was given: JSON text. */
  readonly input: string | null;
  readonly wallMs: number;
}

export function renderStatus(view: StatusView, words: StatusWords, screen: Screen): string[] {
  const { yellow, bold } = screen.colours;
  const { waits } = words;
  return [
    renderHeading(view, screen),
    ...renderReason(view.reason, screen),
    ...(waits === null ? [] : [yellow(makeInert(waits))]),
    "",
    ...renderFacts([...listNames(view, words), ...listCancel(view, screen)], screen),
    "",
    ...renderProgress(view, screen),
    ...renderSteps(view.steps, screen),
    "",
    bold("events (UTC)"),
    ...renderEvents(view, screen),
  ];
}

function listNames(view: StatusView, { stepTurn, input, wallMs }: StatusWords): Fact[] {
  const { version, lane, pipeline, key, chunkSize, chunks, drive, pruned } = view;
  const clipped =
    input === null ? "items of its own" : clipText(makeInert(redactText(input)), INPUT_COLUMNS);
  return [
    { name: "version", value: version },
    { name: "lane", value: lane === pipeline ? null : lane },
    { name: "key", value: key },
    { name: "input", value: clipped },
    {
      name: "chunks",
      value: `${formatCount(chunks)} of up to ${formatCount(chunkSize)} items`,
    },
    { name: "step", value: stepTurn },
    { name: "drive", value: drive > 1 ? drive : null },
    { name: "deadline", value: describeDeadline(view, wallMs) },
    { name: "retention", value: pruned ? "what a redrive needs has been removed" : null },
  ];
}

function describeDeadline({ deadlineAt, state }: StatusView, wallMs: number): string | null {
  if (deadlineAt === null) return null;
  const at = formatTime(deadlineAt);
  if (isEnded(state)) return at;
  const leftMs = Date.parse(deadlineAt) - wallMs;
  return leftMs > 0 ? `${at}, in ${formatDuration(leftMs)}` : `${at}, which has passed`;
}

function formatTime(at: string): string {
  return `${formatInstantShort(Date.parse(at))} UTC`;
}

/** Who requested it, and whether every worker has released the batch. */
function listCancel(view: StatusView, screen: Screen): Fact[] {
  const { cancel } = view;
  if (cancel === null) return [];
  const { mode, requestedAt, acknowledgedAt } = cancel;
  return [
    { name: "cancel", value: `${mode}, by ${describeWho(cancel)}, ${formatTime(requestedAt)}` },
    {
      name: "acknowledged",
      value:
        acknowledgedAt === null
          ? "not yet: workers hold chunks of it"
          : `${formatTime(acknowledgedAt)}: nothing of it starts any more`,
    },
    ...listAbandoned(view, screen),
  ];
}

function renderProgress(view: StatusView, screen: Screen): string[] {
  const { planned, state, elapsedMs } = view;
  const done = countRun(view);
  // A single read has no current rate: the rate of the whole run is the best estimate.
  const samples = [
    { atMs: 0, done: 0 },
    { atMs: elapsedMs, done },
  ];
  const { itemsPerSecond, etaMs } = computeEstimate(samples, view);
  const bar = renderBar(done, view, BAR_COLUMNS, screen);
  const facts: Fact[] = [
    { name: "planned", value: planned },
    { name: "succeeded", value: view.succeeded },
    { name: "skipped", value: view.skipped },
    nameFailed(view, screen),
    { name: "cancelled", value: view.cancelled },
    { name: "pending", value: view.pending },
    { name: "elapsed", value: formatDuration(elapsedMs) },
    { name: "rate", value: formatRate(itemsPerSecond) },
    { name: "ETA", value: isEnded(state) || etaMs === null ? null : formatRange(etaMs) },
  ];
  return [
    ...(screen.isTerminal ? [`  ${bar} ${formatPercent(done, planned)}`, ""] : []),
    ...renderFacts(facts, screen, "right"),
  ];
}

function renderEvents({ events, steps }: StatusView, screen: Screen): string[] {
  const { dim } = screen.colours;
  const columns: Column<EventView>[] = [
    { title: "", value: ({ at }) => formatInstantShort(Date.parse(at)), paint: dim },
    { title: "", value: ({ type }) => type },
    { title: "", value: ({ data }) => describeData(data, steps.length > 1), paint: dim },
  ];
  return renderTable(columns, events, screen, { titles: false, indent: 2 });
}

/** The few facts of a record that are worth showing in a list. */
function describeData(data: EventView["data"], isStepped: boolean): string {
  const names = ["state", ...(isStepped ? ["name"] : []), "mode", "chunks", "items", "code"];
  const words = names.flatMap((name) => {
    const value = data[name];
    if (typeof value === "number") return [`${name} ${formatCount(value)}`];
    return typeof value === "string" ? [value] : [];
  });
  const { drive, by, why } = data;
  if (typeof drive === "number" && drive > 1) words.push(`drive ${formatCount(drive)}`);
  if (typeof by === "string") {
    words.push(`by ${describeWho({ by, why: typeof why === "string" ? why : null })}`);
  }
  return words.join(", ");
}
