/** How many columns a text takes on a terminal, near enough to line up tables and bars. */
import { stripVTControlCharacters } from "node:util";

const NO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u;
const DOUBLE_WIDTH =
  /[\p{Emoji_Presentation}\u{1100}-\u{115f}\u{2e80}-\u{a4cf}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff00}-\u{ff60}\u{ffe0}-\u{ffe6}\u{20000}-\u{3fffd}]/u;

const WRAP_COLUMNS_MIN = 20;

export function measureText(text: string): number {
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
  // A pipe has no width, and a sliver of a terminal is not worth the trouble.
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
  if (NO_WIDTH.test(character)) return 0;
  return DOUBLE_WIDTH.test(character) ? 2 : 1;
}
