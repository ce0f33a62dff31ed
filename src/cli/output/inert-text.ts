/** Makes texts from outside safe to print: lines and JSON that cannot control a terminal. */
import { makeInert, CONTROL_CHARACTERS } from "../../core/base/inert-text.ts";

export { makeInert };

/** Keeps line ends, for our own texts of several lines. */
export function makeInertLines(text: string): string[] {
  return text.split("\n").map(makeInert);
}

/** The same JSON with control characters escaped: they can occur only in its strings. */
export function makeInertJson(json: string): string {
  return json.replace(CONTROL_CHARACTERS, (character) =>
    Array.from({ length: character.length }, (_, at) => {
      const unit = character.charCodeAt(at).toString(16);
      return `\\u${unit.padStart(4, "0")}`;
    }).join(""),
  );
}

/** A value as one line of JSON. */
export function formatJson(value: unknown): string {
  return makeInertJson(JSON.stringify(value));
}
