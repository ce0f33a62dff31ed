/** What came of a batch, for a person: its counts, the first dead letters, and where to look next. */
import type { BatchState } from "../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import type { DeadLetter } from "../../ports/store/reading.ts";
import type { Store } from "../../ports/store/store.ts";
import { computeElapsedMs, countRun } from "../../views/batch.ts";
import { renderDeadLetters } from "./dead-letters.ts";
import { formatDuration } from "../output/format-duration.ts";
import { countNoun, formatCount, formatRate } from "../output/format-number.ts";
import { makeInert, makeInertLines } from "../output/inert-text.ts";
import { getLastStep, readLetters } from "../session/result-pages.ts";
import type { Screen } from "../output/screen.ts";
import { quoteCommand } from "../output/shell-words.ts";
import { renderSteps } from "./steps.ts";
import { wrapLine } from "../output/text-width.ts";

const LETTERS_SHOWN_MAX = 5;

export interface SummaryParts {
  readonly store: Store;
  readonly screen: Screen;
  readonly wallMs: number;
  /** Items a second of this run, where that differs from the whole batch's. */
  readonly itemsPerSecond: number | null;
  readonly storeFlag: readonly string[];
}

export async function renderSummary(batch: BatchSnapshot, parts: SummaryParts): Promise<string[]> {
  const { store, screen, storeFlag } = parts;
  const letters: DeadLetter[] = [];
  for await (const letter of readLetters(store, batch, {}, LETTERS_SHOWN_MAX)) letters.push(letter);
  const results = await store.readResults(batch.id, {
    step: getLastStep(batch),
    afterItem: -1,
    limit: 1,
    sinceDrive: 1,
  });
  return [
    renderHeading(batch, screen),
    ...renderReason(batch, screen),
    "",
    ...renderCounts(batch, parts),
    ...renderSteps(batch, screen),
    ...renderLetters(letters, batch, screen),
    ...renderNext(batch, letters.length > 0, results.length > 0, storeFlag, screen),
  ];
}

export function renderHeading({ id, pipeline, state }: BatchSnapshot, screen: Screen): string {
  const { bold } = screen.colours;
  return `${bold(paintState(state, screen))}  ${makeInert(pipeline)}  ${screen.colours.dim(id)}`;
}

export function paintState(state: BatchState, screen: Screen): string {
  const { colours } = screen;
  if (state === "succeeded") return colours.green(state);
  if (state === "completed_with_errors") return colours.yellow(state);
  if (state === "failed" || state === "cancelled" || state === "expired") return colours.red(state);
  return colours.cyan(state);
}

export function renderReason({ reason }: BatchSnapshot, screen: Screen): string[] {
  if (reason === null) return [];
  const code = makeInert(reason.code);
  const [first = "", ...rest] = [`${code}: ${reason.message}`]
    .flatMap(makeInertLines)
    .flatMap((line) => wrapLine(line, screen.columns));
  return [screen.colours.red(code) + first.slice(code.length), ...rest];
}

function renderCounts(batch: BatchSnapshot, parts: SummaryParts): string[] {
  const { counts, chunks } = batch;
  const { screen } = parts;
  const elapsedMs = computeElapsedMs(batch, parts.wallMs);
  const rate = parts.itemsPerSecond ?? (countRun(counts) * 1_000) / Math.max(1, elapsedMs);
  // Outcomes that most batches do not have are left out where there are none.
  const some = (name: string, count: number): Fact[] =>
    count > 0 ? [{ name, value: formatCount(count) }] : [];
  return renderFacts(
    [
      { name: "planned", value: formatCount(counts.planned) },
      { name: "succeeded", value: formatCount(counts.succeeded), paint: screen.colours.green },
      { name: "skipped", value: formatCount(counts.skipped) },
      describeFailed(counts.failed, screen),
      ...some("cancelled", counts.cancelled),
      ...some("pending", counts.pending),
      { name: "chunks", value: formatCount(chunks) },
      { name: "elapsed", value: formatDuration(elapsedMs) },
      ...(countRun(counts) > 0 ? [{ name: "rate", value: formatRate(rate) }] : []),
    ],
    screen,
  );
}

export interface Fact {
  readonly name: string;
  readonly value: string;
  readonly paint?: (value: string) => string;
}

/** Names on the left, values lined up on the right. */
export function renderFacts(facts: readonly Fact[], screen: Screen): string[] {
  const nameColumns = Math.max(...facts.map(({ name }) => name.length));
  const valueColumns = Math.max(...facts.map(({ value }) => value.length));
  return facts.map(({ name, value, paint = (text) => text }) => {
    const label = screen.colours.dim(name.padEnd(nameColumns));
    return `  ${label}  ${paint(value.padStart(valueColumns))}`;
  });
}

export function describeFailed(count: number, { colours }: Screen): Fact {
  const fact = { name: "failed", value: formatCount(count) };
  return count > 0 ? { ...fact, paint: colours.red } : fact;
}

function renderLetters(
  letters: readonly DeadLetter[],
  batch: BatchSnapshot,
  screen: Screen,
): string[] {
  const { counts } = batch;
  if (letters.length === 0) return [];
  const title =
    counts.failed > letters.length
      ? `the first ${letters.length} of ${countNoun(counts.failed, "dead letter")}`
      : countNoun(counts.failed, "dead letter");
  return ["", screen.colours.bold(title), ...renderDeadLetters(letters, batch, screen)];
}

function renderNext(
  { id }: BatchSnapshot,
  hasLetters: boolean,
  hasResults: boolean,
  storeFlag: readonly string[],
  screen: Screen,
): string[] {
  const commands: [string, string][] = [
    ...(hasLetters ? [["dead", "what failed, and why"] as [string, string]] : []),
    ...(hasResults ? [["results", "what the items returned"] as [string, string]] : []),
    ["status", "what happened when"],
  ];
  const lines = commands.map(([name, what]) => ({
    command: quoteCommand(["sluice", name, id, ...storeFlag]),
    what,
  }));
  const width = Math.max(...lines.map(({ command }) => command.length));
  return [
    "",
    ...lines.map(
      ({ command, what }) =>
        `${screen.colours.cyan(command.padEnd(width))}  ${screen.colours.dim(what)}`,
    ),
  ];
}
