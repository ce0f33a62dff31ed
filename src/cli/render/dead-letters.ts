/** Dead letters: a list, and one of them in full. */
import type { DeadLetterView, FullDeadLetterView } from "../../views/dead-letter.ts";
import { describeWho } from "../../views/hold.ts";
import { countNoun } from "../output/format-number.ts";
import { makeInert, makeInertLines } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderFacts, renderTable } from "../output/table.ts";
import { wrapLine } from "../output/text-width.ts";

/** `isStepped`: of a batch with several steps. */
export function renderDeadLetters(
  letters: readonly DeadLetterView[],
  isStepped: boolean,
  screen: Screen,
): string[] {
  const { red, yellow } = screen.colours;
  const hasDrives = letters.some(({ drive }) => drive > 1);
  const columns: Column<DeadLetterView>[] = [
    { title: "STEP", value: ({ step }) => (isStepped ? step : null), optional: true },
    { title: "ITEM", value: ({ item }) => String(item), align: "right" },
    { title: "KEY", value: ({ key }) => key, elastic: true },
    { title: "CLASS", value: (letter) => letter.class },
    { title: "CODE", value: ({ code }) => code, paint: red },
    { title: "ATTEMPTS", value: ({ attempts }) => attempts, align: "right" },
    {
      title: "DRIVE",
      value: ({ drive }) => (hasDrives ? drive : null),
      align: "right",
      optional: true,
    },
    { title: "NOTE", value: describeNote, optional: true, paint: yellow },
    { title: "MESSAGE", value: ({ message }) => message, below: true },
  ];
  return renderTable(columns, letters, screen);
}

/** "edited", "discarded by ada" */
function describeNote({ discarded, edited }: DeadLetterView): string | null {
  const notes = [
    ...(edited ? ["edited"] : []),
    ...(discarded === null ? [] : [`discarded by ${discarded.by}`]),
  ];
  return notes.length === 0 ? null : notes.join(", ");
}

export function renderDeadLetter(letter: FullDeadLetterView, screen: Screen): string[] {
  const { bold, red, dim } = screen.colours;
  const { batch, item, key, code, deaths, discarded, edited, checkpoint } = letter;
  const name = key === null ? "" : `  ${makeInert(key)}`;
  return [
    `${bold(`item ${item}`)}${name}  ${dim(batch)}`,
    red(makeInert(code)),
    ...makeInertLines(letter.message).flatMap((line) => wrapLine(line, screen.columns)),
    "",
    ...renderFacts(
      [
        { name: "class", value: letter.class },
        { name: "step", value: letter.step },
        { name: "attempts", value: letter.attempts },
        {
          name: "deaths",
          value: deaths === 0 ? null : `${countNoun(deaths, "process", "processes")} with it`,
        },
        { name: "drive", value: letter.drive },
        { name: "failed at", value: letter.failedAt },
        { name: "discarded by", value: discarded === null ? null : describeWho(discarded) },
        { name: "edited", value: edited ? "this payload is not the source's" : null },
        {
          name: "checkpoint",
          value:
            checkpoint === null ? null : `${checkpoint.name} ${JSON.stringify(checkpoint.data)}`,
        },
      ],
      screen,
    ),
    "",
    ...renderPayload(letter, screen),
  ];
}

function renderPayload({ payload, payloadProblem }: FullDeadLetterView, screen: Screen): string[] {
  const { dim, cyan } = screen.colours;
  if (payloadProblem === null) {
    return [dim("payload"), ...JSON.stringify(payload, null, 2).split("\n").map(makeInert)];
  }
  return [
    dim("no payload"),
    makeInert(payloadProblem),
    cyan("hint: --pipeline-file <file> reads it from the pipeline's source."),
  ];
}
