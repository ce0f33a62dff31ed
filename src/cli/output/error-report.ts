/** How an error is printed: `error CODE: message`, its hint, and with --verbose its causes and stacks. */
import { inspect } from "node:util";
import { redactText } from "../../core/base/redact.ts";
import { type ErrorView, viewError } from "../../views/error.ts";
import { makeInert, makeInertLines } from "./inert-text.ts";
import type { Screen } from "./screen.ts";
import { wrapLine } from "./text-width.ts";

/** How deep causes are shown. */
const CAUSES_MAX = 5;

export function printError(
  error: unknown,
  screen: Screen,
  verbose: boolean,
  view: ErrorView = viewError(error),
): void {
  printErrorView(view, screen);
  if (verbose) printCauses(error, screen);
  else if (view.hint === null)
    screen.line(screen.colours.dim("hint: --verbose shows where it came from."));
}

export function printErrorView(
  { code, message, hint }: Pick<ErrorView, "code" | "message" | "hint">,
  screen: Screen,
): void {
  const { colours, columns } = screen;
  const lead = `error ${makeInert(code)}`;
  const [first = "", ...rest] = [`${lead}: ${message}`]
    .flatMap(makeInertLines)
    .flatMap((line) => wrapLine(line, columns));
  const name = `${colours.bold(colours.red("error"))} ${colours.bold(makeInert(code))}`;
  screen.line(name + first.slice(lead.length));
  for (const line of rest) screen.line(line);
  for (const text of hint === null ? [] : makeInertLines(hint)) {
    const [start = "", ...more] = wrapLine(`hint: ${text}`, columns);
    screen.line(colours.cyan("hint:") + start.slice("hint:".length));
    for (const line of more) screen.line(line);
  }
}

export function printCauses(error: unknown, screen: Screen): void {
  let current: unknown = error;
  for (let depth = 0; depth < CAUSES_MAX && current !== undefined && current !== null; depth++) {
    const text = redactText(
      current instanceof Error ? (current.stack ?? current.message) : inspect(current),
    );
    screen.line(screen.colours.dim(depth === 0 ? "stack:" : "caused by:"));
    for (const line of makeInertLines(text)) screen.line(screen.colours.dim(`  ${line}`));
    current = current instanceof Error ? current.cause : undefined;
  }
}
