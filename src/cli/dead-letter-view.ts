/** Dead letters as people and machines are shown them. */
import { formatInstant } from "../ports/clock.ts";
import type { DeadLetter } from "../ports/reading.ts";
import { formatCount } from "./format-number.ts";
import { makeInert } from "./inert-text.ts";
import { renderMessageTable } from "./message-table.ts";
import type { Screen } from "./screen.ts";
import type { Column } from "./table.ts";

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
  return renderMessageTable(columns, rows, messages, screen);
}
