/**
 * The questions about the ledger: how long verifying an export takes, and what the record of an
 * item costs its worker. README.md explains each.
 */
import { count, divide, type Question } from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface LedgerSizes {
  readonly records: number;
  readonly items: number;
}

export const FULL_LEDGER_SIZES: LedgerSizes = { records: 1_000_000, items: 1_000_000 };

/** A size of seconds, to see that everything runs. */
export const QUICK_LEDGER_SIZES: LedgerSizes = { records: 20_000, items: 20_000 };

const VERIFY = new URL("./subjects/ledger-verify.ts", import.meta.url);
const WRITE = new URL("./subjects/ledger-write.ts", import.meta.url);
const RUN = new URL("./subjects/sluice-ledger.ts", import.meta.url);
const STATES = 4;

export function listLedgerQuestions(
  sizes: LedgerSizes,
  pathOf: (items: number) => string,
): readonly Question[] {
  return [askAboutVerifying(sizes), askAboutWriting(sizes), askAboutKeeping(sizes, pathOf)];
}

function askAboutVerifying({ records }: LedgerSizes): Question {
  const nameOf = { verify: "verification", hash: "bare SHA-256" } as const;
  return {
    key: "a",
    title: `verifying an export of ${count(records)} item records, four per item, chunks of 100`,
    subjects: (["verify", "hash"] as const).map((does) => ({
      name: nameOf[does],
      script: VERIFY,
      options: { records, does },
    })),
    shown: [
      { name: "seconds", unit: "s" },
      { name: "cpuSeconds", unit: "CPU s" },
      { name: "bytesPerRecord", unit: "bytes per record" },
      { name: "peakRssMb", unit: "MB" },
    ],
    targets: [
      {
        what: "verification",
        compute: (median) => median(nameOf.verify, "seconds"),
        bound: { kind: "below", limit: 4 },
        unit: "s",
      },
      {
        what: "verification / bare SHA-256 of the same bytes",
        compute: (median) =>
          divide(median(nameOf.verify, "seconds"), median(nameOf.hash, "seconds")),
        bound: null,
        unit: "x",
      },
    ],
  };
}

function askAboutWriting({ records }: LedgerSizes): Question {
  const name = "blocks of 400 records";
  return {
    key: "b",
    title: `making blocks of ${count(records)} item records`,
    subjects: [{ name, script: WRITE, options: { records } }],
    shown: [
      { name: "lineUs", unit: "us per record, its line alone" },
      { name: "blockUs", unit: "us per record, with bytes, leaf and tree" },
    ],
    targets: [
      {
        what: "the line alone",
        compute: (median) => median(name, "lineUs"),
        bound: { kind: "below", limit: 1.5 },
        unit: "us",
      },
      {
        what: "with bytes, leaf and tree",
        compute: (median) => median(name, "blockUs"),
        bound: { kind: "below", limit: 4 },
        unit: "us",
      },
    ],
  };
}

function askAboutKeeping({ items }: LedgerSizes, pathOf: (items: number) => string): Question {
  const whole = { itemsPath: pathOf(items), items, chunkSize: 1_000 };
  const plain = "no ledger of items";
  const signed = "no ledger of items, signed";
  const kept = `${STATES} states per item, signed`;
  return {
    key: "c",
    title: `${count(items)} items, chunk 1,000, FULL, an empty handler, with and without ledgers`,
    subjects: [
      { name: plain, script: RUN, options: { ...whole, states: 0, signs: 0 } },
      { name: signed, script: RUN, options: { ...whole, states: 0, signs: 1 } },
      { name: kept, script: RUN, options: { ...whole, states: STATES, signs: 1 } },
    ],
    shown: [
      { name: "itemsPerSecond", unit: "items/s" },
      { name: "bytesPerItem", unit: "bytes per item on disk" },
      { name: "bytesPerRecord", unit: "bytes per record on disk" },
    ],
    targets: [
      {
        what: kept,
        compute: (median) => median(kept, "itemsPerSecond"),
        bound: { kind: "at least", limit: 50_000 },
        unit: "items/s",
      },
      {
        what: kept,
        compute: (median) => median(kept, "bytesPerRecord"),
        bound: { kind: "below", limit: 400 },
        unit: "bytes per record",
      },
      {
        what: `${signed} / ${plain}`,
        compute: (median) =>
          divide(median(signed, "itemsPerSecond"), median(plain, "itemsPerSecond")),
        bound: { kind: "at least", limit: 0.95 },
        unit: "x",
      },
    ],
  };
}
