/**
 * The result of a batch, for a person: its counts, the first dead letters, and where to look next.
 */
import { type BatchView, countRun } from "../../views/batch.ts";
import type { DeadLetterView } from "../../views/dead-letter.ts";
import type { StepView } from "../../views/step.ts";
import { formatDuration } from "../output/format-duration.ts";
import { countNoun, formatRate } from "../output/format-number.ts";
import type { Screen } from "../output/screen.ts";
import { quoteCommand } from "../output/shell-words.ts";
import { type Fact, renderFacts } from "../output/table.ts";
import { renderHeading, renderReason } from "./batch-words.ts";
import { renderDeadLetters } from "./dead-letters.ts";
import { renderHints } from "./hints.ts";
import { renderSteps } from "./steps.ts";

export interface Summary {
  readonly view: BatchView;
  readonly steps: readonly StepView[];
  /** The first dead letters. */
  readonly letters: readonly DeadLetterView[];
  readonly hasResults: boolean;
  /** Items a second of this run; null where it is the whole batch's. */
  readonly itemsPerSecond: number | null;
  readonly storeFlag: readonly string[];
}

export function renderSummary(summary: Summary, screen: Screen): string[] {
  const { view, steps, letters } = summary;
  return [
    renderHeading(view, screen),
    ...renderReason(view.reason, screen),
    "",
    ...renderCounts(summary, screen),
    ...renderSteps(steps, screen),
    ...listFailures(summary, screen),
    "",
    ...renderHints(
      [
        ...(letters.length > 0 ? [hint(summary, "dead", "what failed, and why")] : []),
        ...(summary.hasResults ? [hint(summary, "results", "what the items returned")] : []),
        hint(summary, "status", "what happened when"),
      ],
      screen,
    ),
  ];
}

function hint({ view, storeFlag }: Summary, verb: string, what: string): [string, string] {
  return [quoteCommand(["sluice", verb, view.batch, ...storeFlag]), what];
}

function renderCounts({ view, itemsPerSecond }: Summary, screen: Screen): string[] {
  const { planned, succeeded, skipped, cancelled, pending, chunks, elapsedMs } = view;
  const run = countRun(view);
  const rate = itemsPerSecond ?? (run * 1_000) / Math.max(1, elapsedMs);
  // Rare outcomes are left out when they are 0.
  const facts: Fact[] = [
    { name: "planned", value: planned },
    { name: "succeeded", value: succeeded, paint: screen.colours.green },
    { name: "skipped", value: skipped },
    nameFailed(view, screen),
    { name: "cancelled", value: cancelled > 0 ? cancelled : null },
    { name: "pending", value: pending > 0 ? pending : null },
    { name: "chunks", value: chunks },
    { name: "elapsed", value: formatDuration(elapsedMs) },
    { name: "rate", value: run > 0 ? formatRate(rate) : null },
  ];
  return renderFacts(facts, screen, "right");
}

export function nameFailed({ failed }: BatchView, { colours }: Screen): Fact {
  const fact = { name: "failed", value: failed };
  return failed > 0 ? { ...fact, paint: colours.red } : fact;
}

function listFailures({ view, steps, letters }: Summary, screen: Screen): string[] {
  if (letters.length === 0) return [];
  const all = countNoun(view.failed, "dead letter");
  const title = view.failed > letters.length ? `the first ${letters.length} of ${all}` : all;
  const isStepped = steps.length > 1;
  return ["", screen.colours.bold(title), ...renderDeadLetters(letters, isStepped, screen)];
}
