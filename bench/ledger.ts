/**
 * The questions about the ledger: how long somebody waits who verifies an export, and what a record of
 * an item costs the worker that makes it. README.md says in words what each means.
 */
import { count, divide, type Question } from "./question.ts";

/** How large the questions are; the targets speak of the full size only. */
export interface LedgerSizes {
  readonly records: number;
}

export const FULL_LEDGER_SIZES: LedgerSizes = { records: 1_000_000 };

/** To see that everything runs, in seconds. */
export const QUICK_LEDGER_SIZES: LedgerSizes = { records: 20_000 };

const VERIFY = new URL("./subjects/ledger-verify.ts", import.meta.url);
const WRITE = new URL("./subjects/ledger-write.ts", import.meta.url);

export function listLedgerQuestions(sizes: LedgerSizes): readonly Question[] {
  return [askAboutVerifying(sizes), askAboutWriting(sizes)];
}

function askAboutVerifying({ records }: LedgerSizes): Question {
  const nameOf = { verify: "verification", hash: "bare SHA-256" } as const;
  return {
    key: "a",
    title: `Verifying an export of ${count(records)} records of items, four each, chunks of 100`,
    subjects: (["verify", "hash"] as const).map((does) => ({
      name: nameOf[does],
      script: VERIFY,
      options: { records, does },
    })),
    shown: [
      { name: "seconds", unit: "s" },
      { name: "cpuSeconds", unit: "s of a core" },
      { name: "bytesPerRecord", unit: "bytes a record" },
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
    title: `Making blocks of ${count(records)} records of items`,
    subjects: [{ name, script: WRITE, options: { records } }],
    shown: [
      { name: "lineUs", unit: "us a record, its line alone" },
      { name: "blockUs", unit: "us a record, with bytes, leaf and tree" },
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
