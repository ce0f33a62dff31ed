/** The result of a cancel. */
import { countRun } from "../../views/batch.ts";
import type { AbandonedView, CancelledView } from "../../views/cancel.ts";
import { describeWho } from "../../views/hold.ts";
import { countNoun, formatCount } from "../output/format-number.ts";
import type { Screen } from "../output/screen.ts";
import { type Fact, renderFacts } from "../output/table.ts";
import { renderHeading } from "./batch-words.ts";

const ABANDONED_SHOWN_MAX = 5;

export function renderCancelled(view: CancelledView, screen: Screen): string[] {
  const { succeeded, skipped, failed, cancelled, pending, acknowledged, cancel } = view;
  const parts = [
    `${formatCount(succeeded)} succeeded`,
    ...(skipped > 0 ? [`${formatCount(skipped)} skipped`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} failed`] : []),
  ];
  const facts: Fact[] = [
    { name: "ran", value: `${countNoun(countRun(view), "item")}: ${parts.join(", ")}` },
    acknowledged
      ? { name: "cancelled", value: `${countNoun(cancelled, "item")} that had not run` }
      : {
          name: "left",
          value: `${countNoun(pending, "item")}, because workers have not released it yet`,
        },
    { name: "by", value: cancel === null ? null : describeWho(cancel) },
    ...listAbandoned(view, screen),
  ];
  return [renderHeading(view, screen), ...renderFacts(facts, screen)];
}

/** Chunks whose handlers did not stop in time. */
export function listAbandoned(
  { abandonedChunks, abandoned }: AbandonedView,
  { colours }: Screen,
): Fact[] {
  if (abandonedChunks === 0) return [];
  const lines = abandoned.slice(0, ABANDONED_SHOWN_MAX).map(({ step, chunk, items }) => {
    const what =
      items === null
        ? "its worker was lost"
        : `${items.length === 1 ? "item" : "items"} ${items.join(", ")} did not stop in time`;
    return `step ${step}, chunk ${chunk}: ${what}`;
  });
  const more = abandonedChunks - lines.length;
  return [
    `${countNoun(abandonedChunks, "chunk")}; what they do now is not recorded`,
    ...lines,
    ...(more > 0 ? [`and ${formatCount(more)} more`] : []),
  ].map((value, at) => ({ name: at === 0 ? "abandoned" : "", value, paint: colours.yellow }));
}
