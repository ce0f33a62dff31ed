/** The evidence of a batch as one archive: what people read, what machines check, and how. */
import { createReadStream } from "node:fs";
import { open as openFile, rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ZipFile } from "yazl";
import { SluiceError } from "../core/errors.ts";
import { ITEM_OUTCOMES } from "../core/outcome-list.ts";
import type { ByteSource } from "../ledger/byte-lines.ts";
import { writeCheckpointLine, writeKeyLine } from "../ledger/export-line.ts";
import { proveRecord } from "../ledger/proof.ts";
import { type BatchEntry, readTimeline } from "../ledger/timeline.ts";
import type { Verdict } from "../ledger/verdict.ts";
import { verifyExport } from "../ledger/verify-export.ts";
import type { BatchSnapshot } from "../ports/conducting.ts";
import type { Store } from "../ports/store.ts";
import { viewBatchFully } from "./batch-view.ts";
import type { Cli } from "./cli.ts";
import { viewDeadLetter } from "./dead-letter-view.ts";
import { EVIDENCE_FILES, renderReport } from "./evidence-report.ts";
import { describeFailure, nameTemporary } from "./output-file.ts";
import { readLetters } from "./result-pages.ts";
import { writeSignedExport } from "./signed-export.ts";
import type { StoreLook } from "./with-store.ts";

const PAGE = 1_000;
/** What the report shows of them; the archive has all. */
const SHOWN_MAX = 1_000;

/** Whole, or not at all; answers what a verification of its ledger says. */
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
  /** Where the export is, and its bytes. */
  readonly ledger: string;
  readonly open: () => ByteSource;
  readonly verdict: Verdict;
}

async function fill(zip: ZipFile, parts: PackParts): Promise<void> {
  const { cli, batch, store, ledger, open, verdict } = parts;
  const takenAt = cli.clock.wallMs();
  const options = { mtime: new Date(takenAt) };
  const add = (name: string, text: string): void => zip.addBuffer(Buffer.from(text), name, options);
  const addLines = (name: string, lines: AsyncIterable<string>): void =>
    zip.addReadStream(Readable.from(lines), name, options);
  const view = viewBatchFully(batch, takenAt);
  const records = await listRecords(open);
  const acts = records.filter(
    ({ data }) => typeof data["by"] === "string" && data["by"] !== "engine",
  );
  const letters = [];
  for await (const letter of readLetters(store, batch, {}, SHOWN_MAX)) {
    letters.push(viewDeadLetter(letter, batch));
  }
  add("report.html", renderReport({ view, records, acts, letters, verdict, takenAt }));
  add("README.txt", describeFiles(batch.id));
  add("plan.json", `${JSON.stringify(view, null, 2)}\n`);
  add("verdict.json", `${JSON.stringify(verdict, null, 2)}\n`);
  add("acts.jsonl", toLines(acts));
  add("keys.jsonl", (await store.readKeys()).map((key) => `${writeKeyLine(key)}\n`).join(""));
  const checkpoints = await store.readCheckpoints(batch.id);
  add("checkpoints.jsonl", checkpoints.map((one) => `${writeCheckpointLine(one)}\n`).join(""));
  const ending = records.findLast(({ type }) => type === "batch.ended");
  const proof = ending === undefined ? null : await prove(open, Number(ending.record));
  if (proof !== null) add("proofs/ending.json", `${proof}\n`);
  addLines("outcomes.csv", listOutcomes(store, batch));
  addLines("failures.jsonl", listFailures(store, batch));
  addLines("attempts.jsonl", listAttempts(open));
  zip.addFile(ledger, "ledger.jsonl", options);
  zip.end();
}

/** All but what is said of items: those are for machines. */
async function listRecords(open: () => ByteSource): Promise<BatchEntry[]> {
  const records: BatchEntry[] = [];
  await readTimeline(open(), (entry) => {
    if (entry.kind === "batch" && entry.type !== "items.recorded") records.push(entry);
  });
  return records;
}

/** Null while no checkpoint covers it. */
async function prove(open: () => ByteSource, seq: number): Promise<string | null> {
  try {
    return await proveRecord(open(), { seq, index: null });
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
  const all = readLetters(store, batch, {}, Number.POSITIVE_INFINITY);
  for await (const letter of all) yield `${JSON.stringify(viewDeadLetter(letter, batch))}\n`;
}

/** What handlers recorded and the engine said of items, in a batch that keeps a ledger of them. */
async function* listAttempts(open: () => ByteSource): AsyncGenerator<string> {
  let lines: string[] = [];
  const told: string[][] = [];
  await readTimeline(open(), (entry) => {
    if (entry.kind !== "item" || entry.state !== "retried") return;
    lines.push(`${JSON.stringify(entry)}\n`);
    if (lines.length < PAGE) return;
    told.push(lines);
    lines = [];
  });
  for (const some of [...told, lines]) yield some.join("");
}

function toLines(values: readonly object[]): string {
  return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

function describeFiles(batch: string): string {
  const width = Math.max(...EVIDENCE_FILES.map(([name]) => name.length)) + 2;
  return [
    `Evidence of batch ${batch}`,
    "",
    ...EVIDENCE_FILES.map(([name, what]) => name.padEnd(width) + what),
    "",
    "Verify it with the public key of whoever signed it, on any machine that has Node:",
    "",
    "  npx sluice ledger verify ledger.jsonl --key key.pem --conclusive",
    "  npx sluice ledger check-proof proofs/ending.json --key key.pem",
    "",
  ].join("\n");
}
