/** Text from outside, safe to print: what is invisible, or a terminal would obey, is shown as a code. */
const STEERING = /[\p{C}\p{Zl}\p{Zp}]/gu;

export function makeInert(text: string): string {
  return text.replace(
    STEERING,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** For texts of several lines of ours, in which something from outside is quoted. */
export function makeInertLines(text: string): string {
  return text.split("\n").map(makeInert).join("\n");
}

/** A value as one line of JSON that says the same without such characters: they only stand in strings. */
export function formatInertJson(value: unknown): string {
  return JSON.stringify(value).replace(STEERING, (character) =>
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}
