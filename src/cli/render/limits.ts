/** Limits, their changes, and keys that are closed. */
import type { LimitTarget, LimitValue } from "../../core/limits/limit.ts";
import type { ClosedKeyView, LimitChangeView, LimitView } from "../../views/limit.ts";
import { formatDuration } from "../output/format-duration.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

export function renderLimits(limits: readonly LimitView[], screen: Screen): string[] {
  const columns: Column<LimitView>[] = [
    { title: "KIND", value: ({ kind }) => kind },
    { title: "OF", value: ({ scope }) => scope },
    { title: "NAME", value: ({ name }) => name, elastic: true },
    {
      title: "LIMIT",
      value: ({ value }) => formatLimit(value),
      align: "right",
      paint: screen.colours.cyan,
    },
    {
      title: "DECLARED",
      value: ({ set, declared }) => (set === null ? "the same" : formatLimit(declared)),
      align: "right",
    },
    { title: "IN USE", value: ({ used }) => used, align: "right" },
  ];
  return renderTable(columns, limits, screen);
}

export function formatLimit(value: LimitValue | null): string {
  if (value === null) return "-";
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 6 });
  const { perSecond, burst } = value;
  return `${perSecond.toLocaleString("en", { maximumFractionDigits: 6 })}/s, burst ${burst}`;
}

/** "the cap of the lane north" */
export function describeLimit({ kind, scope, name }: LimitTarget): string {
  if (kind === "rate") return `the rate of ${name}`;
  return `the ${kind} of the ${scope} ${name}`;
}

export function renderChanges(changes: readonly LimitChangeView[], screen: Screen): string[] {
  const columns: Column<LimitChangeView>[] = [
    { title: "AT", value: ({ at }) => at },
    { title: "BY", value: ({ by }) => by },
    {
      title: "WHAT",
      value: ({ kind, scope, name }) =>
        kind === "rate" ? `rate ${name}` : `${kind} ${scope} ${name}`,
    },
    { title: "BEFORE", value: ({ before }) => formatLimit(before), align: "right" },
    { title: "AFTER", value: ({ after }) => formatLimit(after), align: "right" },
    { title: "WHY", value: ({ why }) => why, elastic: true },
  ];
  return renderTable(columns, changes, screen);
}

export function renderClosedKeys(closed: readonly ClosedKeyView[], screen: Screen): string[] {
  const columns: Column<ClosedKeyView>[] = [
    { title: "RATE", value: ({ rate }) => rate },
    { title: "KEY", value: ({ key }) => (key === "" ? null : key), elastic: true },
    { title: "FOR", value: ({ forMs }) => formatDuration(forMs), paint: screen.colours.yellow },
  ];
  return renderTable(columns, closed, screen);
}
