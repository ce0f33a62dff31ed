/** Opens a PDF with PDFium, which is loaded once in each process of the pool, or tells why it cannot. */
import { type PDFiumDocument, PDFiumLibrary, type PDFiumPage } from "@hyzyla/pdfium";
import { PermanentError } from "sluice";

let library: Promise<PDFiumLibrary> | null = null;

/** The document is closed when `use` is done. */
export async function withPdf<Result>(
  bytes: Buffer,
  use: (pdf: PDFiumDocument) => Promise<Result> | Result,
): Promise<Result> {
  library ??= PDFiumLibrary.init();
  const pdfium = await library;
  const pdf = await pdfium.loadDocument(bytes).catch((error: unknown) => {
    throw refuse(bytes, error);
  });
  try {
    return await use(pdf);
  } finally {
    pdf.destroy();
  }
}

/** One that opens without a password, though it is encrypted, is read as any other. */
function refuse(bytes: Buffer, cause: unknown): PermanentError {
  return bytes.includes("/Encrypt")
    ? new PermanentError("the PDF cannot be read without its password", {
        code: "ENCRYPTED",
        cause,
      })
    : new PermanentError("the PDF is broken", { code: "PARSER_FAILURE", cause });
}

/** The library leaves a page open whose text was read: its memory would stay taken. */
export function readPageText(pdf: PDFiumDocument, number: number): string {
  const page = pdf.getPage(number);
  try {
    return page.getText();
  } finally {
    closePage(page);
  }
}

function closePage(page: PDFiumPage): void {
  const pdfium = page["module"] as { _FPDF_ClosePage(page: number): void };
  pdfium._FPDF_ClosePage(page["pageIdx"] as number);
}
