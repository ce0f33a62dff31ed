/**
 * A pipeline that extracts the text of born-digital PDFs, in a pool of one or two processes. The
 * clock runs for the batch once every process has started. Each document's pages and characters are
 * compared with its source.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createEngine, definePipeline } from "../../../dist/index.js";
import type {
  ExtractedText,
  ExtractRequest,
} from "../../../systems/site-packets/pdf/extract-text.ts";
import { countCharacters } from "../../../systems/site-packets/pdf/page-text.ts";
import { renderText } from "../../../systems/site-packets/portals/corpus.ts";
import { writeTextPdf } from "../../../systems/site-packets/portals/text-pdf.ts";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";

interface ExtractOptions {
  readonly folder: string;
  readonly size: number;
  readonly documents: number;
}

interface TextFile {
  readonly path: string;
  readonly pages: number;
  readonly characters: number;
}

const TASK = new URL("../../../systems/site-packets/pdf/extract-text.ts", import.meta.url);
const PAGES_LEAST = 60;
const PAGES_MOST = 100;
/** Coprime to the number of lengths, so that all lengths occur, long and short ones mixed. */
const PAGES_STRIDE = 17;
/** For each process, before the clock runs: they load PDFium with their first document. */
const WARM_UP_DOCUMENTS = 4;
const LIMITS = { pagesMax: 500, streamBytesMax: 134_217_728, charactersMax: 10_000_000 };

async function measureExtract({ folder, size, documents }: ExtractOptions): Promise<Figures> {
  const pdfs = join(folder, "pdfs");
  mkdirSync(pdfs);
  const files = Array.from({ length: documents }, (_, number) => writeTextFile(pdfs, number));
  let wrong = 0;
  const pipeline = definePipeline({
    name: "bench",
    cpu: { size },
    process: async ({ path, pages, characters }: TextFile, { cpu }) => {
      const request: ExtractRequest = { path, target: `${path}.txt`, ...LIMITS };
      const read = await cpu<ExtractedText>(TASK, request, { export: "extractText" });
      if (read.pages !== pages || read.characters !== characters) wrong++;
    },
  });
  const engine = await createEngine({ store: join(folder, "sluice.db") });
  const run = async (items: readonly TextFile[]): Promise<void> => {
    const handle = await engine.submit(pipeline, items);
    checkCount("documents read", (await handle.wait()).counts.succeeded, items.length);
  };
  try {
    await run(files.slice(0, size * WARM_UP_DOCUMENTS));
    const startedAt = performance.now();
    await run(files);
    const seconds = elapsedSeconds(startedAt);
    checkCount("documents that were read wrongly", wrong, 0);
    const pages = files.reduce((sum, file) => sum + file.pages, 0);
    return { pagesPerSecond: pages / seconds, seconds };
  } finally {
    await engine.close();
  }
}

function writeTextFile(folder: string, number: number): TextFile {
  const pages = PAGES_LEAST + ((number * PAGES_STRIDE) % (PAGES_MOST - PAGES_LEAST + 1));
  const text = renderText({ kind: "text", type: "protocol", pages, contentSeed: number });
  const path = join(folder, `${number}.pdf`);
  writeFileSync(path, writeTextPdf(text));
  return { path, pages, characters: countCharacters(text.join("")) };
}

await runSubject(measureExtract);
