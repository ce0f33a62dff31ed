/** Dead letters as people and machines are shown them. */
import type { Act } from "../../core/batch/batch.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conducting.ts";
import type { DeadLetter } from "../../ports/store/reading.ts";
import { describeWho } from "../../views/hold.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import { renderMessageTable } from "../output/message-table.ts";
import type { Screen } from "../output/screen.ts";
import { hasSteps, nameStep } from "../../views/step.ts";
import type { Column } from "../output/table.ts";

export interface DeadLetterView {
  readonly item: number;
  readonly key: string | null;
  readonly class: string;
  readonly code: string;
  readonly message: string;
  readonly attempts: number;
  readonly deaths: number;
  readonly failedAt: string;
  readonly step: string;
  readonly drive: number;
  /** Who accepted the failure. */
  readonly discarded: Act | null;
  readonly edited: boolean;
}

export function viewDeadLetter(letter: DeadLetter, batch: BatchSnapshot): DeadLetterView {
  const { item, key, errorClass, code, message, attempts, deaths, failedAt } = letter;
  const { step, drive, discarded, edited } = letter;
  return {
    item,
    key,
    class: errorClass,
    code,
    message,
    attempts,
    deaths,
    failedAt: formatInstant(failedAt),
    step: nameStep(batch, step),
    drive,
    discarded,
    edited,
  };
}

/** What most letters do not have is left out where none has it. */
export function renderDeadLetters(
  letters: readonly DeadLetter[],
  batch: BatchSnapshot,
  screen: Screen,
): string[] {
  const { colours } = screen;
  const withStep = hasSteps(batch);
  const withDrive = letters.some(({ drive }) => drive > 1);
  const withNote = letters.some((letter) => describeNote(letter) !== "");
  const columns: Column[] = [
    ...(withStep ? [{ title: "STEP" }] : []),
    { title: "ITEM", align: "right" },
    { title: "KEY", elastic: true },
    { title: "CLASS" },
    { title: "CODE", paint: colours.red },
    { title: "ATTEMPTS", align: "right" },
    ...(withDrive ? [{ title: "DRIVE", align: "right" as const }] : []),
    ...(withNote ? [{ title: "NOTE", paint: colours.yellow }] : []),
  ];
  const rows = letters.map((letter) => [
    ...(withStep ? [makeInert(nameStep(batch, letter.step))] : []),
    String(letter.item),
    letter.key === null ? "-" : makeInert(letter.key),
    letter.errorClass,
    makeInert(letter.code),
    formatCount(letter.attempts),
    ...(withDrive ? [formatCount(letter.drive)] : []),
    ...(withNote ? [makeInert(describeNote(letter)) || "-"] : []),
  ]);
  const messages = letters.map(({ message }) => makeInert(message));
  return renderMessageTable(columns, rows, messages, screen);
}

/** "edited", "discarded by ada" */
function describeNote({ discarded, edited }: DeadLetter): string {
  return [
    ...(edited ? ["edited"] : []),
    ...(discarded === null ? [] : [`discarded by ${discarded.by}`]),
  ].join(", ");
}

/** "ada: known to be bad"; null while nobody has. */
export function describeDiscarded({ discarded }: DeadLetter): string | null {
  return discarded === null ? null : describeWho(discarded);
}
