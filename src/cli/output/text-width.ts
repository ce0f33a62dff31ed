/**
 * How many columns a text takes on a terminal, near enough to line up tables and bars.
 *
 * Only the table of wide characters comes from a library. `string-width` took 46 µs for a text with
 * one wide character (here 1 µs) and brings four packages; `fast-string-width` gives marks that
 * take a column none, and its clipping cuts a character of two halves between them. Our texts have
 * no colours and no joined emoji (makeInert spells those out), so what `wrap-ansi` adds is not needed.
 */
import { stripVTControlCharacters } from "node:util";
import { eastAsianWidth } from "get-east-asian-width";

const ONE_COLUMN_EACH = /^[\x20-\x7e]*$/;
/** A skin tone changes the emoji before it. */
const NO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}\p{Emoji_Modifier}]/u;

const WRAP_COLUMNS_MIN = 20;

export function measureText(text: string): number {
  if (ONE_COLUMN_EACH.test(text)) return text.length;
  let width = 0;
  for (const character of stripVTControlCharacters(text)) width += measureCharacter(character);
  return width;
}

/** Cut to a width, with an ellipsis where something is missing. For texts without colours. */
export function clipText(text: string, columns: number): string {
  if (measureText(text) <= columns) return text;
  let clipped = "";
  let width = 0;
  for (const character of text) {
    width += measureCharacter(character);
    if (width > columns - 1) break;
    clipped += character;
  }
  return columns > 0 ? `${clipped}…` : "";
}

/** In lines of at most that width, broken between words where that is possible. */
export function wrapText(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ").flatMap((one) => breakWord(one, columns))) {
    if (line !== "" && measureText(line) + 1 + measureText(word) > columns) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** The same for a line that may be indented or an entry of a list: what follows lines up with it. */
export function wrapLine(line: string, columns: number): string[] {
  const [lead = ""] = /^ *(- |hint: )?/.exec(line) ?? [];
  const room = columns - lead.length;
  // A pipe has no width, and in a very narrow terminal wrapping does not help.
  if (room < WRAP_COLUMNS_MIN || room === Infinity) return [line];
  const [first = "", ...rest] = wrapText(line.slice(lead.length), room);
  return [lead + first, ...rest.map((one) => " ".repeat(lead.length) + one)];
}

function breakWord(word: string, columns: number): string[] {
  const pieces: string[] = [""];
  let width = 0;
  for (const character of word) {
    const more = measureCharacter(character);
    if (width + more > columns) {
      pieces.push("");
      width = 0;
    }
    pieces[pieces.length - 1] += character;
    width += more;
  }
  return pieces;
}

function measureCharacter(character: string): number {
  return NO_WIDTH.test(character) ? 0 : eastAsianWidth(character.codePointAt(0) ?? 0);
}
