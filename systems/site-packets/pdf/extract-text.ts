/**
 * A task of the pool: checks that a file is a PDF that can be read within limits, and writes the text
 * of its pages to a file, each page followed by a form feed.
 */
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { PDFiumDocument } from "@hyzyla/pdfium";
import { BadPdfError } from "./bad-pdf.ts";
import { hasBomb } from "./expanded-size.ts";
import { readPageText, withPdf } from "./open-pdf.ts";
import { countCharacters, PAGE_END } from "./page-text.ts";
import { checkPdfFile } from "./pdf-file.ts";

export interface ExtractRequest {
  readonly path: string;
  /** The file for the text. */
  readonly target: string;
  readonly pagesMax: number;
  /** The limit for the unpacked size of one of its streams. */
  readonly streamBytesMax: number;
  readonly charactersMax: number;
}

export interface ExtractedText {
  readonly pages: number;
  /** Without white space. */
  readonly characters: number;
}

export async function extractText(request: ExtractRequest): Promise<ExtractedText> {
  await checkFile(request);
  return withPdf(request.path, (pdf) => writeText(pdf, request));
}

/** The file's bytes are freed before the parser gets them. */
async function checkFile({ path, streamBytesMax }: ExtractRequest): Promise<void> {
  const bytes = await readFile(path);
  await checkPdfFile(bytes);
  if (!(await hasBomb(bytes, streamBytesMax))) return;
  const message = `a stream of the PDF unpacks to more than ${streamBytesMax} bytes`;
  throw new BadPdfError("TOO_LARGE", message);
}

async function writeText(pdf: PDFiumDocument, request: ExtractRequest): Promise<ExtractedText> {
  const { target, pagesMax, charactersMax } = request;
  const pages = pdf.getPageCount();
  if (pages === 0) throw new BadPdfError("PARSER_FAILURE", "the PDF has no pages");
  if (pages > pagesMax) {
    const message = `the PDF has ${pages} pages, more than the ${pagesMax} that are allowed`;
    throw new BadPdfError("TOO_LARGE", message);
  }
  let characters = 0;
  function* listPages(): Generator<string> {
    for (let number = 0; number < pages; number++) {
      const text = readPageText(pdf, number);
      characters += countCharacters(text);
      if (characters > charactersMax) {
        const message = `the PDF has more than the ${charactersMax} characters that are allowed`;
        throw new BadPdfError("TOO_LARGE", message);
      }
      yield text + PAGE_END;
    }
  }
  await pipeline(Readable.from(listPages()), createWriteStream(target));
  return { pages, characters };
}
