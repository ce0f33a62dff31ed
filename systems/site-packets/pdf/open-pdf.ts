/** Opens a PDF with PDFium, which is loaded once in each process of the pool, or tells why it cannot. */
import { type PDFiumDocument, PDFiumLibrary, type PDFiumPage } from "@hyzyla/pdfium";
import { BadPdfError } from "./bad-pdf.ts";

/** Of WebAssembly: a trap, or memory that could not grow. */
const WASM_ERROR = "RuntimeError";

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
  let isCrashed = false;
  try {
    return await use(pdf);
  } catch (error) {
    isCrashed = error instanceof Error && error.name === WASM_ERROR;
    if (!isCrashed) throw error;
    // Its memory is in disorder: nothing of it is used again, not even to close the document.
    library = null;
    throw new BadPdfError("PARSER_FAILURE", "the PDF's reader crashed", error);
  } finally {
    if (!isCrashed) pdf.destroy();
  }
}

/** One that opens without a password, though it is encrypted, is read as any other. */
function refuse(bytes: Buffer, cause: unknown): BadPdfError {
  return bytes.includes("/Encrypt")
    ? new BadPdfError("ENCRYPTED", "the PDF cannot be read without its password", cause)
    : new BadPdfError("PARSER_FAILURE", "the PDF is broken", cause);
}

/** From 0 on. The library answers a page also where there is none, or one that is broken. */
export function openPage(pdf: PDFiumDocument, number: number): PDFiumPage {
  const page = pdf.getPage(number);
  if (page["pageIdx"] !== 0) return page;
  throw new BadPdfError("PARSER_FAILURE", `page ${number + 1} of the PDF is broken`);
}

/** The library leaves a page open whose text was read: its memory would stay taken. */
export function readPageText(pdf: PDFiumDocument, number: number): string {
  const page = openPage(pdf, number);
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
