/**
 * Opens a PDF with PDFium, which is loaded once in each process of the pool, or returns why it
 * cannot. The file is read directly into PDFium's own memory: otherwise a large one would be in
 * memory twice.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { PDFiumDocument, PDFiumLibrary, type PDFiumPage } from "@hyzyla/pdfium";
import { BadPdfError } from "./bad-pdf.ts";

/** Of WebAssembly: a trap, or memory that could not grow. */
const WASM_ERROR = "RuntimeError";
/** Of PDFium: a password is needed. */
const PASSWORD_ERROR = 4;

/** The part of the library's own module that is used here; the library accepts bytes only. */
interface Pdfium {
  readonly HEAPU8: Uint8Array;
  readonly wasmExports: { malloc(bytes: number): number; free(place: number): void };
  _FPDF_LoadMemDocument(place: number, bytes: number, password: number): number;
  _FPDF_GetLastError(): number;
}

type DocumentParts = ConstructorParameters<typeof PDFiumDocument>[0];

let library: Promise<PDFiumLibrary> | null = null;

/** The document is closed when `use` is done. */
export async function withPdf<Result>(
  path: string,
  use: (pdf: PDFiumDocument) => Promise<Result> | Result,
): Promise<Result> {
  library ??= PDFiumLibrary.init();
  const pdf = loadDocument((await library)["module"] as Pdfium, path);
  let isCrashed = false;
  try {
    return await use(pdf);
  } catch (error) {
    isCrashed = error instanceof Error && error.name === WASM_ERROR;
    if (!isCrashed) throw error;
    // Its memory is corrupt: nothing of it is used again, not even to close the document.
    library = null;
    throw new BadPdfError("PARSER_FAILURE", "the PDF's reader crashed", error);
  } finally {
    if (!isCrashed) pdf.destroy();
  }
}

function loadDocument(pdfium: Pdfium, path: string): PDFiumDocument {
  const { place, bytes } = loadFile(pdfium, path);
  const documentIdx = pdfium._FPDF_LoadMemDocument(place, bytes, 0);
  if (documentIdx !== 0) {
    const module = pdfium as unknown as DocumentParts["module"];
    return new PDFiumDocument({ module, documentIdx, documentPtr: place });
  }
  const why = pdfium._FPDF_GetLastError();
  pdfium.wasmExports.free(place);
  throw why === PASSWORD_ERROR
    ? new BadPdfError("ENCRYPTED", "the PDF cannot be read without its password")
    : new BadPdfError("PARSER_FAILURE", `the PDF is broken (PDFium's error ${why})`);
}

function loadFile(
  pdfium: Pdfium,
  path: string,
): { readonly place: number; readonly bytes: number } {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const place = pdfium.wasmExports.malloc(size);
    if (place === 0) throw new BadPdfError("TOO_LARGE", `there is no room for ${size} bytes`);
    let bytes = 0;
    while (bytes < size) {
      const read = readSync(file, pdfium.HEAPU8, place + bytes, size - bytes, bytes);
      if (read === 0) break;
      bytes += read;
    }
    return { place, bytes };
  } finally {
    closeSync(file);
  }
}

/** From 0. The library returns a page even for a missing or broken one. */
export function openPage(pdf: PDFiumDocument, number: number): PDFiumPage {
  const page = pdf.getPage(number);
  if (page["pageIdx"] !== 0) return page;
  throw new BadPdfError("PARSER_FAILURE", `page ${number + 1} of the PDF is broken`);
}

/** The library leaves a page open after reading its text: its memory would not be freed. */
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
