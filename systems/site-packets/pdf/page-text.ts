/** The format of the text of pages: each page, followed by a separator. */

/** After each page, as other text extractors do it. */
export const PAGE_END = "\f";

/** Without white space. */
export function countCharacters(text: string): number {
  return text.replace(/\s+/g, "").length;
}
