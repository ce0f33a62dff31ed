/**
 * Writes the evidence of a batch as one archive: files for people, files for machines, and how to
 * verify them.
 */
import { createReadStream } from "node:fs";
import { open as openFile, rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import { SluiceError } from "../../core/base/errors.ts";
import { ITEM_OUTCOMES } from "../../core/items/outcome-list.ts";
import type { ByteSource } from "../../ledger/format/byte-lines.ts";
import {
  writeSignedHeadLine,
  writeEndLine,
  writeKeyLine,
} from "../../ledger/format/export-line.ts";
import { proveRecord } from "../../ledger/verify/proof.ts";
import { type BatchEntry, readTimeline, type TimelineEntry } from "../../ledger/verify/timeline.ts";
import type { Verdict } from "../../ledger/verify/verdict.ts";
import { verifyExport } from "../../ledger/verify/verify-export.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { viewBatchFully } from "../../views/batch.ts";
import type { Cli } from "../output/cli.ts";
import { viewDeadLetter } from "../../views/dead-letter.ts";
import { ENDING_PROOF, type EvidenceFiles, listFiles, renderReport } from "./evidence-report.ts";
import { describeFailure, nameTemporary } from "../output/output-file.ts";
import { readDeadLetters } from "../session/result-pages.ts";
import { writeSignedExport } from "./signed-export.ts";
import type { StoreLook } from "../session/with-store.ts";

const PAGE = 1_000;
/** The report shows this many of them; the archive has all. */
const SHOWN_MAX = 1_000;
const NEWLINE = 10;

/**
 * Written completely or not at all; returns the verdict about its ledger. For a broken ledger the
 * archive has the ledger unchanged, and describes only the part before the break: the part after it
 * could come from anyone, in any form.
 */
export async function packEvidence(
  cli: Cli,
  batch: BatchSnapshot,
  look: StoreLook,
  path: string,
): Promise<Verdict> {
  const archive = nameTemporary(path);
  const ledger = `${archive}.jsonl`;
  try {
    await writeSignedExport(cli, batch, look, ledger);
    const open = (): ByteSource => createReadStream(ledger);
    const verdict = await verifyExport(open(), { trusted: [] });
    const zip = new ZipFile();
    const file = await openFile(archive, "wx");
    try {
      await Promise.all([
        pipeline(zip.outputStream, file.createWriteStream({ flush: true })),
        fill(zip, { cli, batch, store: look.store, ledger, open, verdict }),
      ]);
    } finally {
      await file.close();
    }
    await rename(archive, path);
    return verdict;
  } catch (error) {
    throw describeFailure(path, error);
  } finally {
    await rm(ledger, { force: true });
    await rm(archive, { force: true });
  }
}

interface PackParts {
  readonly cli: Cli;
  readonly batch: BatchSnapshot;
  readonly store: Store;
  /** The file of the export, and its content. */
  readonly ledger: string;
  readonly open: () => ByteSource;
  readonly verdict: Verdict;
}

/** Reports every verified record. */
async function readVerified(
  { open, verdict }: PackParts,
  onEntry: (entry: TimelineEntry) => void,
): Promise<void> {
  if (verdict.kind === "intact") return readTimeline(open(), onEntry);
  try {
    await readTimeline(cutExport(open(), verdict.line), onEntry);
  } catch (error) {
    // The break is where an export cannot end: in the header, or within a block.
    if (!(error instanceof SluiceError && error.code === "LEDGER_EXPORT")) throw error;
  }
}

/** Yields the lines before this one, and an end line. */
async function* cutExport(source: ByteSource, line: number): AsyncGenerator<Uint8Array> {
  let left = line - 1;
  for await (const piece of source) {
    let end = 0;
    while (left > 0 && end < piece.length) {
      const newline = piece.indexOf(NEWLINE, end);
      if (newline !== -1) left--;
      end = newline === -1 ? piece.length : newline + 1;
    }
    yield piece.subarray(0, end);
    if (left === 0) break;
  }
  yield Buffer.from(`${writeEndLine(0, 0)}\n`);
}

async function fill(zip: ZipFile, parts: PackParts): Promise<void> {
  const { cli, batch, store, ledger, verdict } = parts;
  const takenAt = cli.clock.wallMs();
  const options = { mtime: new Date(takenAt) };
  const add = (name: string, text: string): void => zip.addBuffer(Buffer.from(text), name, options);
  const addLines = (name: string, lines: AsyncIterable<string>): void =>
    zip.addReadStream(Readable.from(lines), name, options);
  const view = viewBatchFully(batch, takenAt);
  const records = await listRecords(parts);
  const acts = records.filter(
    ({ data }) => typeof data["by"] === "string" && data["by"] !== "engine",
  );
  const letters = [];
  for await (const letter of readDeadLetters(store, batch, {}, SHOWN_MAX)) {
    letters.push(viewDeadLetter(letter, batch));
  }
  const proof = await proveEnding(parts, records);
  const files = listFiles(proof !== null);
  add("report.html", renderReport({ view, records, acts, letters, verdict, takenAt, files }));
  add("README.txt", describeFiles(batch.id, files));
  add("plan.json", `${JSON.stringify(view, null, 2)}\n`);
  add("verdict.json", `${JSON.stringify(verdict, null, 2)}\n`);
  add("acts.jsonl", toLines(acts));
  add("keys.jsonl", (await store.readKeys()).map((key) => `${writeKeyLine(key)}\n`).join(""));
  const signedHeads = await store.readSignedHeads(batch.id);
  add("signed-heads.jsonl", signedHeads.map((one) => `${writeSignedHeadLine(one)}\n`).join(""));
  if (proof !== null) add(ENDING_PROOF, `${proof}\n`);
  addLines("outcomes.csv", listOutcomes(store, batch));
  addLines("failures.jsonl", listFailures(store, batch));
  addLines("attempts.jsonl", listAttempts(parts));
  zip.addFile(ledger, "ledger.jsonl", options);
  zip.end();
}

/** All records except those about items, which are for machines. */
async function listRecords(parts: PackParts): Promise<BatchEntry[]> {
  const records: BatchEntry[] = [];
  await readVerified(parts, (entry) => {
    if (entry.kind === "batch" && entry.type !== "items.recorded") records.push(entry);
  });
  return records;
}

/** Null if no signed head covers it, or if the ledger is broken. */
async function proveEnding(
  { open, verdict }: PackParts,
  records: readonly BatchEntry[],
): Promise<string | null> {
  const ending = records.findLast(({ type }) => type === "batch.ended");
  if (ending === undefined || verdict.kind === "broken") return null;
  try {
    return await proveRecord(open(), ending.record);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "LEDGER_UNSIGNED") return null;
    throw error;
  }
}

async function* listOutcomes(store: Store, batch: BatchSnapshot): AsyncGenerator<string> {
  yield "step,item,outcome\n";
  for (const step of batch.steps.keys()) {
    for (const outcome of ITEM_OUTCOMES) {
      for (let afterItem: number | null = -1; afterItem !== null; ) {
        const page = await store.listItems(batch.id, { step, outcome, afterItem, limit: PAGE });
        yield page.items.map((item) => `${step},${item},${outcome}\n`).join("");
        afterItem = page.next;
      }
    }
  }
}

async function* listFailures(store: Store, batch: BatchSnapshot): AsyncGenerator<string> {
  const all = readDeadLetters(store, batch, {}, Number.POSITIVE_INFINITY);
  for await (const letter of all) yield `${JSON.stringify(viewDeadLetter(letter, batch))}\n`;
}

/** Failed attempts that were retried, if the batch keeps a ledger of items. */
async function* listAttempts(parts: PackParts): AsyncGenerator<string> {
  let lines: string[] = [];
  const pages: string[][] = [];
  await readVerified(parts, (entry) => {
    if (entry.kind !== "item" || entry.state !== "retried") return;
    lines.push(`${JSON.stringify(entry)}\n`);
    if (lines.length < PAGE) return;
    pages.push(lines);
    lines = [];
  });
  for (const page of [...pages, lines]) yield page.join("");
}

function toLines(values: readonly object[]): string {
  return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

function describeFiles(batch: string, files: EvidenceFiles): string {
  const width = Math.max(...files.map(([name]) => name.length)) + 2;
  const hasProof = files.some(([name]) => name === ENDING_PROOF);
  return [
    `Evidence of batch ${batch}`,
    "",
    ...files.map(([name, what]) => name.padEnd(width) + what),
    "",
    "Verify it with the public key of its signer, on any machine with Node:",
    "",
    "  npx sluice ledger verify ledger.jsonl --trust key.pem --conclusive",
    ...(hasProof ? [`  npx sluice ledger check-proof ${ENDING_PROOF} --trust key.pem`] : []),
    "",
  ].join("\n");
}
