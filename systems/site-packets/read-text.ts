/**
 * The text of a document: from the PDF, or, if it has almost none and so counts as a scan, from
 * pictures of its pages.
 */
import { open } from "node:fs/promises";
import type { ItemContext } from "sluice";
import type { Config } from "./config.ts";
import type { ExtractedText } from "./pdf/extract-text.ts";
import { countCharacters, PAGE_END } from "./pdf/page-text.ts";
import { reject } from "./rejection.ts";
import { runTask } from "./run-task.ts";

const EXTRACT_TEXT = {
  module: new URL("./pdf/extract-text.ts", import.meta.url),
  name: "extractText",
};
const OCR_PAGE = { module: new URL("./pdf/ocr-page.ts", import.meta.url), name: "readPage" };
/** At most this many pages are read again when a worker dies during a long scan. */
const PAGES_PER_CHECKPOINT = 10;

export interface DocumentText extends ExtractedText {
  readonly file: string;
  readonly from: "pdf" | "ocr";
}

/** How far a scan has been read. */
interface OcrProgress {
  readonly pages: number;
  readonly pagesRead: number;
  readonly bytes: number;
  readonly characters: number;
}

export async function readText(
  path: string,
  limits: Config["document"],
  context: ItemContext,
): Promise<DocumentText> {
  const begun = context.lastCheckpoint?.name === "ocr" ? context.lastCheckpoint.data : null;
  if (begun !== null) return readScan(path, begun as OcrProgress, context);
  const file = `${path}.txt`;
  const { pagesMax, charactersMax, streamBytesMax, ocrBelowCharacters, ocrPagesMax } = limits;
  const request = { path, target: file, pagesMax, charactersMax, streamBytesMax };
  const text = await runTask<ExtractedText>(context, EXTRACT_TEXT, request);
  if (text.characters >= ocrBelowCharacters) return { ...text, file, from: "pdf" };
  if (text.pages > ocrPagesMax) {
    const message = `the scan has ${text.pages} pages, more than the ${ocrPagesMax} that are read`;
    throw reject("TOO_LARGE", message);
  }
  return readScan(path, { pages: text.pages, pagesRead: 0, bytes: 0, characters: 0 }, context);
}

async function readScan(
  path: string,
  begun: OcrProgress,
  context: ItemContext,
): Promise<DocumentText> {
  const file = `${path}.ocr.txt`;
  const { pages } = begun;
  let { pagesRead, bytes, characters } = begun;
  const out = await open(file, pagesRead === 0 ? "w" : "r+");
  try {
    await out.truncate(bytes);
    while (pagesRead < pages) {
      const text = await runTask<string>(context, OCR_PAGE, { path, page: pagesRead });
      const written = await out.write(text + PAGE_END, bytes);
      bytes += written.bytesWritten;
      characters += countCharacters(text);
      pagesRead++;
      if (pagesRead % PAGES_PER_CHECKPOINT !== 0) continue;
      await out.sync();
      await context.checkpoint("ocr", { pages, pagesRead, bytes, characters });
    }
  } finally {
    await out.close();
  }
  return { file, pages, characters, from: "ocr" };
}
