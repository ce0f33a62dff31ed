/**
 * How well scans are read: the words that OCR finds on each page of the corpus's scans, compared
 * with the words in its picture. Only the reading of pages is timed.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readPage } from "../../../systems/site-packets/pdf/ocr-page.ts";
import {
  planCorpus,
  renderDocument,
  renderText,
} from "../../../systems/site-packets/portals/corpus.ts";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";
import { countFoundWords, splitWords } from "../../word-match.ts";

interface WordsOptions {
  readonly folder: string;
  readonly scans: number;
}

/** The seed of the demo. */
const CORPUS = { seed: 1, sites: 12, documents: 500 };

async function measureWords({ folder, scans }: WordsOptions): Promise<Figures> {
  const documents = planCorpus(CORPUS)
    .filter(({ kind }) => kind === "scan")
    .slice(0, scans);
  checkCount("scans of the corpus", documents.length, scans);
  let pages = 0;
  let words = 0;
  let found = 0;
  let seconds = 0;
  for (const [number, document] of documents.entries()) {
    const path = join(folder, `${number}.pdf`);
    writeFileSync(path, await renderDocument(document));
    for (const [page, text] of renderText(document).entries()) {
      const startedAt = performance.now();
      const read = await readPage({ path, page });
      seconds += elapsedSeconds(startedAt);
      const expected = splitWords(text);
      pages++;
      words += expected.length;
      found += countFoundWords(expected, splitWords(read));
    }
  }
  return { matchedPercent: (100 * found) / words, words, pagesPerSecond: pages / seconds };
}

await runSubject(measureWords);
