/** Quotes words for a shell, for commands that are shown to be copied. */
import { makeInert } from "./inert-text.ts";

function quoteWord(word: string): string {
  const inert = makeInert(word);
  return /^[\w@%+=:,./-]+$/.test(inert) ? inert : `'${inert.replaceAll("'", `'\\''`)}'`;
}

export function quoteCommand(words: readonly string[]): string {
  return words.map(quoteWord).join(" ");
}
