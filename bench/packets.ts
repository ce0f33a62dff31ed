/**
 * The questions about site-packets, a system on Sluice that reads PDFs in its CPU pool: what a second
 * reader brings, how much memory long scans take, and how well they are read. README.md
 * explains each.
 */
import { count, divide, type Question } from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface PacketSizes {
  /** Born-digital PDFs of 60 to 100 pages each. */
  readonly textDocuments: number;
  /** Scans that are ingested at once, and the pages of each. */
  readonly scanDocuments: number;
  readonly scanPages: number;
  /** Scans of the corpus whose words are compared; it has 12. */
  readonly comparedScans: number;
}

/** 19,000 pages of text take one reader about ten seconds. */
export const FULL_PACKET_SIZES: PacketSizes = {
  textDocuments: 240,
  scanDocuments: 10,
  scanPages: 200,
  comparedScans: 12,
};

/** A size of half a minute, to see that everything runs. */
export const QUICK_PACKET_SIZES: PacketSizes = {
  textDocuments: 12,
  scanDocuments: 2,
  scanPages: 20,
  comparedScans: 2,
};

const EXTRACT = new URL("./subjects/packets/extract.ts", import.meta.url);
const MEMORY = new URL("./subjects/packets/memory.ts", import.meta.url);
const WORDS = new URL("./subjects/packets/words.ts", import.meta.url);

export function listPacketQuestions(sizes: PacketSizes): readonly Question[] {
  return [askAboutReaders(sizes), askAboutMemory(sizes), askAboutWords(sizes)];
}

function askAboutReaders({ textDocuments }: PacketSizes): Question {
  const nameOf = (size: number): string => (size === 1 ? "1 reader" : `${size} readers`);
  return {
    key: "a",
    title: `text of ${count(textDocuments)} born-digital PDFs of 60 to 100 pages, read by one process and by two`,
    subjects: [1, 2].map((size) => ({
      name: nameOf(size),
      script: EXTRACT,
      options: { size, documents: textDocuments },
    })),
    shown: [
      { name: "pagesPerSecond", unit: "pages/s" },
      { name: "seconds", unit: "s" },
    ],
    targets: [
      {
        what: `${nameOf(2)} / ${nameOf(1)}`,
        compute: (median) =>
          divide(median(nameOf(2), "pagesPerSecond"), median(nameOf(1), "pagesPerSecond")),
        bound: { kind: "at least", limit: 1.5 },
        unit: "x",
      },
    ],
  };
}

function askAboutMemory({ scanDocuments, scanPages }: PacketSizes): Question {
  const name = "an ingest of scans";
  return {
    key: "b",
    title: `${count(scanDocuments)} scans of ${count(scanPages)} pages each, ingested at once with 2 readers`,
    subjects: [
      { name, script: MEMORY, options: { documents: scanDocuments, pages: scanPages, readers: 2 } },
    ],
    shown: [
      { name: "peakTreeMb", unit: "MB peak, all processes together" },
      { name: "documentMb", unit: "MB per document" },
      { name: "pagesPerSecond", unit: "pages/s" },
    ],
    targets: [
      {
        what: "peak, all processes together",
        compute: (median) => median(name, "peakTreeMb"),
        bound: { kind: "below", limit: 600 },
        unit: "MB",
      },
    ],
  };
}

function askAboutWords({ comparedScans }: PacketSizes): Question {
  const name = "OCR";
  return {
    key: "c",
    title: `words of ${count(comparedScans)} scans of the corpus, read by OCR`,
    subjects: [{ name, script: WORDS, options: { scans: comparedScans } }],
    shown: [
      { name: "matchedPercent", unit: "% of the words" },
      { name: "words", unit: "words" },
      { name: "pagesPerSecond", unit: "pages/s in one process" },
    ],
    targets: [
      {
        what: "words read correctly",
        compute: (median) => median(name, "matchedPercent"),
        bound: { kind: "at least", limit: 95 },
        unit: "%",
      },
    ],
  };
}
