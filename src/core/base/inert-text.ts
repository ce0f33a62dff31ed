/**
 * Texts from items, files and other processes as a terminal may show them. Whatever is invisible or
 * steers a display (escape sequences, line ends, direction marks, half pairs) is spelled out, so a
 * key can neither paint over a table nor fake a line of it.
 */
export const STEERING = /[\p{C}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** On one line. */
export function makeInert(text: string): string {
  return text.replace(STEERING, spellOut);
}

function spellOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return (
    SHORT[character] ??
    (code <= 0xff ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`)
  );
}
