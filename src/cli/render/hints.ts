/** Suggested next commands, each with its purpose. */
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

export type Hint = readonly [command: string, what: string];

export function renderHints(hints: readonly Hint[], screen: Screen): string[] {
  const columns: Column<Hint>[] = [
    { title: "", value: ([command]) => command, paint: screen.colours.cyan },
    { title: "", value: ([, what]) => what, paint: screen.colours.dim },
  ];
  return renderTable(columns, hints, screen, { titles: false });
}
