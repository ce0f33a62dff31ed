/** A batch in a few words: its state in colour, and what it waits for. */
import { type BatchState, type EndReason, isEnded } from "../../core/batch/batch.ts";
import type { BatchFacts } from "../../core/batch/why.ts";
import type { BatchView } from "../../views/batch.ts";
import { countNoun } from "../output/format-number.ts";
import { makeInert, makeInertLines } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { wrapLine } from "../output/text-width.ts";

export function renderHeading({ batch, pipeline, state }: BatchView, screen: Screen): string {
  const { bold, dim } = screen.colours;
  return `${bold(paintState(state, screen)(state))}  ${makeInert(pipeline)}  ${dim(batch)}`;
}

export function paintState(state: BatchState, { colours }: Screen): (text: string) => string {
  if (state === "succeeded") return colours.green;
  if (state === "completed_with_errors") return colours.yellow;
  if (state === "failed" || state === "cancelled" || state === "expired") return colours.red;
  return colours.cyan;
}

export function renderReason(reason: EndReason | null, screen: Screen): string[] {
  if (reason === null) return [];
  const code = makeInert(reason.code);
  const [first = "", ...rest] = [`${code}: ${reason.message}`]
    .flatMap(makeInertLines)
    .flatMap((line) => wrapLine(line, screen.columns));
  return [screen.colours.red(code) + first.slice(code.length), ...rest];
}

/** The rest of a sentence about the batch: "waits for...", "is paused...". */
export function nameHold(hold: string): string {
  return hold.startsWith("waits") ? hold : `is ${hold}`;
}

/** Null when a worker works on it, or will. */
export function describeNoWorker(facts: BatchFacts | null): string | null {
  if (facts === null || isEnded(facts.state) || facts.hasWorker) return null;
  const { pipeline, version, leased } = facts;
  const held = leased === 0 ? "" : `; ${countNoun(leased, "chunk")} will be taken back`;
  return `no worker has the pipeline ${pipeline} in version ${version}${held}`;
}
