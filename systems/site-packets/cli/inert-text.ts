/** Makes text from outside safe to print: invisible and control characters are shown as a code. */
const CONTROL_CHARACTERS = /[\p{C}\p{Zl}\p{Zp}]/gu;

export function makeInert(text: string): string {
  return text.replace(
    CONTROL_CHARACTERS,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** For our own texts of several lines that quote text from outside. */
export function makeInertLines(text: string): string {
  return text.split("\n").map(makeInert).join("\n");
}

/**
 * A value as one line of JSON with the same meaning and without such characters: they occur only in
 * strings.
 */
export function formatInertJson(value: unknown): string {
  return JSON.stringify(value).replace(CONTROL_CHARACTERS, (character) =>
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}
