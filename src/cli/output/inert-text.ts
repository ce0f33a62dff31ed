/** What the command prints of texts from outside: lines and JSON that cannot steer a terminal. */
import { makeInert, STEERING } from "../../core/base/inert-text.ts";

export { makeInert };

/** Keeps line ends, for texts that are lists of ours. */
export function makeInertLines(text: string): string[] {
  return text.split("\n").map(makeInert);
}

/** JSON that says the same without a character that steers: such can only stand in its strings. */
export function makeInertJson(json: string): string {
  return json.replace(STEERING, (character) =>
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
