/** The result of one check. */
import type { Screen } from "../output/screen.ts";
import { wrapText } from "../output/text-width.ts";

export type Level = "ok" | "warn" | "bad";

export interface Check {
  readonly name: string;
  readonly level: Level;
  readonly text: string;
  /** What to do about it, where it is not `ok`. */
  readonly remedy?: string;
}

export function good(name: string, text: string): Check {
  return { name, level: "ok", text };
}

export function warn(name: string, text: string, remedy: string): Check {
  return { name, level: "warn", text, remedy };
}

export function bad(name: string, text: string, remedy: string): Check {
  return { name, level: "bad", text, remedy };
}

const INDENT = " ".repeat(18);

export function renderCheck({ name, level, text, remedy }: Check, screen: Screen): string[] {
  const { colours } = screen;
  const paint = { ok: colours.green, warn: colours.yellow, bad: colours.red }[level];
  const wrap = (long: string): string[] => wrapText(long, screen.columns - INDENT.length);
  const [first = "", ...rest] = wrap(text);
  return [
    `${paint(level.padEnd(4))}  ${name.padEnd(10)}  ${first}`,
    ...rest.map((line) => INDENT + line),
    ...(remedy === undefined ? [] : wrap(remedy).map((line) => INDENT + colours.cyan(line))),
  ];
}
