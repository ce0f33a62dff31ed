/** Undelivered letters as people and machines are shown them. */
import { formatInstant } from "../../ports/clock.ts";
import type { UndeliveredLetter } from "../../ports/store/delivering.ts";
import { formatAge } from "../output/format-duration.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import { renderMessageTable } from "../output/message-table.ts";
import type { Screen } from "../output/screen.ts";
import type { Column } from "../output/table.ts";

export function viewLetter(letter: UndeliveredLetter): object {
  const { id, reader, event, type, batch, attempts, code, message, givenUpAt } = letter;
  const at = formatInstant(givenUpAt);
  return { letter: id, reader, event, type, batch, attempts, code, message, givenUpAt: at };
}

export function renderLetters(
  letters: readonly UndeliveredLetter[],
  wallMs: number,
  screen: Screen,
): string[] {
  const { colours } = screen;
  const columns: Column[] = [
    { title: "LETTER", align: "right" },
    { title: "READER", elastic: true },
    { title: "EVENT" },
    { title: "TYPE" },
    { title: "CODE", paint: colours.red },
    { title: "ATTEMPTS", align: "right" },
    { title: "GIVEN UP", align: "right", paint: colours.dim },
  ];
  const rows = letters.map(({ id, reader, event, type, code, attempts, givenUpAt }) => [
    String(id),
    makeInert(reader),
    makeInert(event),
    makeInert(type),
    makeInert(code),
    formatCount(attempts),
    formatAge(Math.max(0, wallMs - givenUpAt)),
  ]);
  const messages = letters.map(({ message }) => makeInert(message));
  return renderMessageTable(columns, rows, messages, screen);
}
