/** How the text of pages is written: a page, and what says that it is over. */

/** Behind each page, as in the output of other text extractors. */
export const PAGE_END = "\f";

/** Without white space. */
export function countCharacters(text: string): number {
  return text.replace(/\s+/g, "").length;
}
