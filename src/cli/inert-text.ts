/**
 * Texts from items, files and other processes as a terminal may show them. Whatever is invisible or
 * steers a display (escape sequences, line ends, direction marks, half pairs) is spelled out, so a
 * key can neither paint over a table nor fake a line of it.
 */
const STEERING = /[\p{C}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** On one line. */
export function makeInert(text: string): string {
  return text.replace(STEERING, spellOut);
}

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

function spellOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return (
    SHORT[character] ??
    (code <= 0xff ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`)
  );
}
