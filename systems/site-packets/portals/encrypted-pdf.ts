/** PDFs that need a password: the only kind that needs a library. */
import PDFDocument from "pdfkit";
import { PAGE_HEIGHT_PT, PAGE_WIDTH_PT } from "./pdf-writer.ts";
import { FONT_PT, LEADING_PT, MARGIN_PT } from "./text-pdf.ts";

/**
 * The key is made from the file's id, and the id from this date: with the current time, no two
 * would be the same.
 */
const CREATED_AT = new Date(Date.UTC(2026, 0, 5));

/**
 * PDF 1.4 on purpose: its cipher (RC4 of 128 bits) uses no random start, unlike those of later
 * versions, so the bytes are always the same.
 */
export async function writeEncryptedPdf(
  pages: readonly string[],
  password: string,
): Promise<Buffer> {
  const pdf = new PDFDocument({
    size: [PAGE_WIDTH_PT, PAGE_HEIGHT_PT],
    pdfVersion: "1.4",
    userPassword: password,
    ownerPassword: `${password}-owner`,
    autoFirstPage: false,
    info: { CreationDate: CREATED_AT },
  });
  for (const page of pages) {
    pdf.addPage().font("Helvetica").fontSize(FONT_PT);
    for (const [number, line] of page.split("\n").entries()) {
      pdf.text(line, MARGIN_PT, MARGIN_PT + number * LEADING_PT, { lineBreak: false });
    }
  }
  pdf.end();
  const parts: Buffer[] = [];
  for await (const part of pdf) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
