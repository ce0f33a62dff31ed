/** Dead letters as people and machines are shown them. */
import { formatInstant } from "../ports/clock.ts";
import type { DeadLetter } from "../ports/reading.ts";
import { formatCount } from "./format-number.ts";
import { makeInert } from "./inert-text.ts";
import type { Screen } from "./screen.ts";
import { type Column, renderTable } from "./table.ts";
import { wrapText } from "./text-width.ts";

export function viewDeadLetter(letter: DeadLetter): object {
  const { item, key, errorClass, code, message, attempts, deaths, failedAt } = letter;
  return {
    item,
    key,
    class: errorClass,
    code,
    message,
    attempts,
    deaths,
    failedAt: formatInstant(failedAt),
  };
}

const MESSAGE_INDENT = "    ";
const MESSAGE_LINES_MAX = 6;

/** On a terminal each message has lines of its own; in a pipe a letter is one line, for grep. */
export function renderDeadLetters(letters: readonly DeadLetter[], screen: Screen): string[] {
  const { colours } = screen;
  const columns: Column[] = [
    { title: "ITEM", align: "right" },
    { title: "KEY", elastic: true },
    { title: "CLASS" },
    { title: "CODE", paint: colours.red },
    { title: "ATTEMPTS", align: "right" },
  ];
  const rows = letters.map(({ item, key, errorClass, code, attempts }) => [
    String(item),
    key === null ? "-" : makeInert(key),
    errorClass,
    makeInert(code),
    formatCount(attempts),
  ]);
  const messages = letters.map(({ message }) => makeInert(message));
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
        colours.dim(MESSAGE_INDENT + one),
      ),
    ]),
  ];
}

function clipLines(lines: readonly string[]): readonly string[] {
  if (lines.length <= MESSAGE_LINES_MAX) return lines;
  return [...lines.slice(0, MESSAGE_LINES_MAX - 1), "…"];
}
