/**
 * What a careful developer would write for this one job, without an engine: scan the file once for
 * the byte ranges of the chunks, plan one row per chunk, then for each chunk read, parse, await the
 * handler for 16 items at a time, and commit the chunk's row with a two-bit outcome per item. It
 * knows each item's outcome after a crash and can continue from there, and nothing else: no
 * retries, no leases, no second worker, no limits, no records. It is the upper limit for Sluice's
 * speed with its promises.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface LoopOptions {
  readonly itemsPath: string;
  readonly items: number;
  readonly chunkSize: number;
}

interface ChunkRow {
  readonly start_byte: number;
  readonly end_byte: number;
  readonly items: number;
}

const CONCURRENCY = 16;
const SCAN_BLOCK_BYTES = 1 << 20;
const ROWS_PER_PLAN_COMMIT = 1_000;
const NEWLINE = 0x0a;
const SUCCEEDED = 1;

// The loop measures bookkeeping, so its handler is empty, like Sluice's.
async function handleItem(_item: unknown): Promise<void> {}

function openDatabase(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE chunk (
      id INTEGER PRIMARY KEY,
      start_byte INTEGER NOT NULL,
      end_byte INTEGER NOT NULL,
      items INTEGER NOT NULL,
      state TEXT NOT NULL DEFAULT 'planned',
      outcomes BLOB
    ) STRICT;
  `);
  return database;
}

/** Writes a row per chunk while it scans, so that memory does not grow with the file. */
function planChunks(database: DatabaseSync, file: number, chunkSize: number): number {
  const insert = database.prepare(
    "INSERT INTO chunk (id, start_byte, end_byte, items) VALUES (?, ?, ?, ?)",
  );
  const block = Buffer.allocUnsafe(SCAN_BLOCK_BYTES);
  let chunks = 0;
  let chunkStart = 0;
  let lines = 0;
  const plan = (endByte: number) => {
    insert.run(chunks, chunkStart, endByte, lines);
    chunks++;
    chunkStart = endByte;
    lines = 0;
    if (chunks % ROWS_PER_PLAN_COMMIT === 0) database.exec("COMMIT; BEGIN");
  };
  database.exec("BEGIN");
  let blockStart = 0;
  for (;;) {
    const bytes = readSync(file, block, 0, block.length, blockStart);
    if (bytes === 0) break;
    const filled = block.subarray(0, bytes);
    for (let at = filled.indexOf(NEWLINE); at !== -1; at = filled.indexOf(NEWLINE, at + 1)) {
      lines++;
      if (lines === chunkSize) plan(blockStart + at + 1);
    }
    blockStart += bytes;
  }
  if (lines > 0) plan(fstatSync(file).size);
  database.exec("COMMIT");
  return chunks;
}

/** 16 runners share one cursor, so a slow item delays only its own runner. */
async function runItems(lines: readonly string[], items: number): Promise<Uint8Array> {
  const outcomes = new Uint8Array((items + 3) >> 2);
  let next = 0;
  const runner = async () => {
    while (next < items) {
      const item = next++;
      await handleItem(JSON.parse(lines[item] as string));
      outcomes[item >> 2] = (outcomes[item >> 2] as number) | (SUCCEEDED << ((item & 3) << 1));
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, runner));
  return outcomes;
}

async function runChunks(database: DatabaseSync, file: number, chunks: number): Promise<void> {
  const select = database.prepare("SELECT start_byte, end_byte, items FROM chunk WHERE id = ?");
  const settle = database.prepare(
    "UPDATE chunk SET state = 'done', outcomes = ? WHERE id = ? AND state = 'planned'",
  );
  let buffer = Buffer.allocUnsafe(0);
  for (let chunk = 0; chunk < chunks; chunk++) {
    const row = select.get(chunk) as unknown as ChunkRow;
    const bytes = row.end_byte - row.start_byte;
    if (buffer.length < bytes) buffer = Buffer.allocUnsafe(bytes * 2);
    readSync(file, buffer, 0, bytes, row.start_byte);
    const lines = buffer.toString("utf8", 0, bytes).split("\n");
    settle.run(await runItems(lines, row.items), chunk);
  }
}

/** Counts the outcomes in the committed maps; not timed. */
function countSucceeded(database: DatabaseSync): number {
  let succeeded = 0;
  const rows = database.prepare("SELECT outcomes FROM chunk WHERE state = 'done'").iterate();
  for (const row of rows) {
    for (const byte of row["outcomes"] as Uint8Array) {
      for (let shift = 0; shift < 8; shift += 2) {
        if (((byte >> shift) & 3) === SUCCEEDED) succeeded++;
      }
    }
  }
  return succeeded;
}

async function measureLoop(options: LoopOptions & { readonly folder: string }): Promise<Figures> {
  const database = openDatabase(join(options.folder, "loop.db"));
  const file = openSync(options.itemsPath, "r");
  try {
    const startedAt = performance.now();
    const chunks = planChunks(database, file, options.chunkSize);
    const planSeconds = elapsedSeconds(startedAt);
    await runChunks(database, file, chunks);
    const seconds = elapsedSeconds(startedAt);
    checkCount("items that succeeded", countSucceeded(database), options.items);
    return { seconds, planSeconds, itemsPerSecond: options.items / seconds };
  } finally {
    closeSync(file);
    database.close();
  }
}

await runSubject(measureLoop);
