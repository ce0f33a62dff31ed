/** Rows under titles, lined up. On a terminal the one elastic column gives way until it all fits. */
import type { Screen } from "./screen.ts";
import { clipText, measureText } from "./text-width.ts";

export interface Column {
  readonly title: string;
  readonly align?: "left" | "right";
  /** May be cut to make the table fit. */
  readonly elastic?: boolean;
  /** Colours a cell after it was lined up. */
  readonly paint?: (cell: string) => string;
}

const GAP = "  ";
const ELASTIC_COLUMNS_MIN = 8;

export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  screen: Screen,
): string[] {
  const widths = columns.map(({ title }, at) =>
    // Not as arguments of one call: that many rows would overflow the stack.
    rows.reduce((width, row) => Math.max(width, measureText(row[at] ?? "")), measureText(title)),
  );
  shrinkElastic(columns, widths, screen.columns);
  const render = (cells: readonly string[], isTitle: boolean): string =>
    columns
      .map((column, at) => {
        const cell = alignCell(cells[at] ?? "", widths[at] ?? 0, column.align ?? "left");
        if (isTitle) return screen.colours.dim(cell);
        return column.paint === undefined ? cell : column.paint(cell);
      })
      .join(GAP)
      .trimEnd();
  const titles = columns.map(({ title }) => title);
  return [render(titles, true), ...rows.map((row) => render(row, false))];
}

function shrinkElastic(columns: readonly Column[], widths: number[], available: number): void {
  const total = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1);
  const elastic = columns.findIndex((column) => column.elastic === true);
  const wanted = widths[elastic];
  if (wanted === undefined || total <= available) return;
  const shrunk = Math.max(ELASTIC_COLUMNS_MIN, wanted - (total - available));
  widths[elastic] = Math.min(wanted, shrunk);
}

function alignCell(text: string, width: number, align: "left" | "right"): string {
  const clipped = clipText(text, width);
  const padding = " ".repeat(Math.max(0, width - measureText(clipped)));
  return align === "left" ? clipped + padding : padding + clipped;
}
