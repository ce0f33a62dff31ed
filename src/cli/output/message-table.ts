/**
 * A table whose rows have a message each. On a terminal a message has lines of its own under its
 * row; in a pipe it is the last column, so that a row is one line for grep.
 */
import type { Screen } from "./screen.ts";
import { type Column, renderTable } from "./table.ts";
import { wrapText } from "./text-width.ts";

const MESSAGE_INDENT = "    ";
const MESSAGE_LINES_MAX = 6;

export function renderMessageTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  messages: readonly string[],
  screen: Screen,
): string[] {
  if (!screen.isTerminal) {
    const wide = rows.map((row, at) => [...row, messages[at] ?? ""]);
    return renderTable([...columns, { title: "MESSAGE" }], wide, screen);
  }
  const [titles = "", ...lines] = renderTable(columns, rows, screen);
  const room = screen.columns - MESSAGE_INDENT.length;
  return [
    titles,
    ...lines.flatMap((line, at) => [
      line,
      ...clipLines(wrapText(messages[at] ?? "", room)).map((one) =>
        screen.colours.dim(MESSAGE_INDENT + one),
      ),
    ]),
  ];
}

function clipLines(lines: readonly string[]): readonly string[] {
  if (lines.length <= MESSAGE_LINES_MAX) return lines;
  return [...lines.slice(0, MESSAGE_LINES_MAX - 1), "…"];
}
