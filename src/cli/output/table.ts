/**
 * Tables and lists of facts: the only place that lines up columns. Text from outside cannot control
 * the terminal, because every cell is made inert here.
 */
import { formatCount } from "./format-number.ts";
import { makeInert } from "./inert-text.ts";
import type { Screen } from "./screen.ts";
import { clipText, measureText, wrapText } from "./text-width.ts";

/** A text is unchanged, a number gets thousands separators, null is a dash. */
export type Cell = string | number | null;

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => Cell;
  readonly align?: "left" | "right";
  /** May be cut to make the table fit on a terminal. */
  readonly elastic?: boolean;
  /** Left out if no row has a value. */
  readonly optional?: boolean;
  /** On a terminal in lines of its own under the row; in a pipe a column, so that grep finds the row. */
  readonly below?: boolean;
  /** Colours a cell after alignment. */
  readonly paint?: (cell: string, row: Row) => string;
}

export interface TableOptions {
  /** Default true. */
  readonly titles?: boolean;
  /** Spaces before each line. Default 0. */
  readonly indent?: number;
}

const GAP = "  ";
const ELASTIC_COLUMNS_MIN = 8;
const BELOW_INDENT = "    ";
const BELOW_LINES_MAX = 6;

export function renderTable<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  screen: Screen,
  { titles = true, indent = 0 }: TableOptions = {},
): string[] {
  const isBelow = ({ below }: Column<Row>): boolean => below === true && screen.isTerminal;
  const shown = columns.filter((column) => !isBelow(column) && hasValue(column, rows));
  const under = columns.filter(isBelow);
  const cells = rows.map((row) => shown.map(({ value }) => formatCell(value(row))));
  const widths = shown.map(({ title }, at) =>
    // Not as arguments of one call: many rows would overflow the stack.
    cells.reduce(
      (width, row) => Math.max(width, measureText(row[at] ?? "")),
      titles ? measureText(title) : 0,
    ),
  );
  shrinkElastic(shown, widths, screen.columns - indent);
  const join = (line: readonly string[]): string =>
    `${" ".repeat(indent)}${line.join(GAP)}`.trimEnd();
  const align = (text: string, at: number): string =>
    alignCell(text, widths[at] ?? 0, shown[at]?.align ?? "left");
  const head = shown.map(({ title }, at) => screen.colours.dim(align(title, at)));
  return [
    ...(titles ? [join(head)] : []),
    ...rows.flatMap((row, nth) => [
      join(
        shown.map(({ paint = (cell) => cell }, at) =>
          paint(align(cells[nth]?.[at] ?? "", at), row),
        ),
      ),
      ...under.flatMap(({ value }) => renderBelow(formatCell(value(row)), screen)),
    ]),
  ];
}

function hasValue<Row>({ optional, value }: Column<Row>, rows: readonly Row[]): boolean {
  return optional !== true || rows.some((row) => value(row) !== null);
}

function formatCell(cell: Cell): string {
  if (cell === null) return "-";
  return typeof cell === "number" ? formatCount(cell) : makeInert(cell);
}

function renderBelow(text: string, screen: Screen): string[] {
  const lines = wrapText(text, screen.columns - BELOW_INDENT.length);
  const shown =
    lines.length <= BELOW_LINES_MAX ? lines : [...lines.slice(0, BELOW_LINES_MAX - 1), "…"];
  return shown.map((line) => screen.colours.dim(BELOW_INDENT + line));
}

function shrinkElastic<Row>(
  columns: readonly Column<Row>[],
  widths: number[],
  available: number,
): void {
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

export interface Fact {
  /** Empty for a line that continues the fact before it. */
  readonly name: string;
  /** Null leaves the fact out. */
  readonly value: Cell;
  readonly paint?: (value: string) => string;
}

/** Names on the left, values beside them: numbers are lined up on the right. */
export function renderFacts(
  facts: readonly Fact[],
  screen: Screen,
  align: "left" | "right" = "left",
): string[] {
  const shown = facts.filter(({ value }) => value !== null);
  const columns: Column<Fact>[] = [
    { title: "", value: ({ name }) => name, paint: screen.colours.dim },
    {
      title: "",
      value: ({ value }) => value,
      align,
      paint: (cell, { paint = (text) => text }) => paint(cell),
    },
  ];
  return renderTable(columns, shown, screen, { titles: false, indent: 2 });
}
