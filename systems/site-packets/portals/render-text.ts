/**
 * The text of a document, page by page: what its PDF shows, and what reading or OCR must find. A
 * function of the planned document alone; copies of a document have its text.
 */
import { composeSentence } from "./clinical-sentences.ts";
import type { PlannedDocument } from "./planned-document.ts";
import { ChanceSequence, computeChance } from "./seeded-chance.ts";

export type TextSource = Pick<PlannedDocument, "kind" | "type" | "pages" | "contentSeed">;

/** Fits the width of a page in the type size of `text-pdf.ts`. */
export const LINE_CHARS_MAX = 78;
const LINES_MAX = { text: 38, scan: 20 } as const;
const PARAGRAPH_SENTENCES = [2, 5] as const;
const CONSENT_DOCUMENT_SHARE = 0.45;

const TITLES: Readonly<Record<string, string>> = {
  protocol: "Clinical trial protocol",
  approval: "Approval of the ethics committee",
  "lab-certificate": "Certificate of laboratory accreditation",
  cv: "Curriculum vitae of the investigator",
};
const OTHER_TITLE = "Notice of the site";

/** The lines of each page are separated by a line feed. */
export function renderText(document: TextSource): string[] {
  return Array.from({ length: document.pages }, (_, page) => renderPage(document, page));
}

function renderPage({ kind, type, pages, contentSeed }: TextSource, page: number): string {
  const chance = new ChanceSequence(contentSeed, "page", page);
  const speaksOfConsent = computeChance(contentSeed, "consent") < CONSENT_DOCUMENT_SHARE;
  const linesMax = kind === "scan" ? LINES_MAX.scan : LINES_MAX.text;
  const lines = [
    `${TITLES[type] ?? OTHER_TITLE}, number ${contentSeed}`,
    `Page ${page + 1} of ${pages}`,
  ];
  for (;;) {
    const paragraph = wrapWords(composeParagraph(chance, speaksOfConsent));
    // Ends: a paragraph has at least one line.
    if (lines.length + paragraph.length > linesMax) return lines.join("\n");
    lines.push(...paragraph);
  }
}

function composeParagraph(chance: ChanceSequence, speaksOfConsent: boolean): string {
  const sentences = chance.pickNumber(...PARAGRAPH_SENTENCES);
  return Array.from({ length: sentences }, () => composeSentence(chance, speaksOfConsent)).join(
    " ",
  );
}

function wrapWords(paragraph: string): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of paragraph.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (longer.length <= LINE_CHARS_MAX) {
      line = longer;
    } else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line];
}
