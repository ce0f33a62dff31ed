/**
 * Makes texts from items, files and other processes safe to show on a terminal. Characters that are
 * invisible or control the display (escape sequences, line ends, direction marks, lone surrogates)
 * are spelled out, so a key can neither overwrite a table nor fake one of its lines.
 */
export const CONTROL_CHARACTERS = /[\p{C}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text on one line. */
export function makeInert(text: string): string {
  return text.replace(CONTROL_CHARACTERS, spellOut);
}

function spellOut(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return (
    SHORT[character] ??
    (code <= 0xff ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`)
  );
}
