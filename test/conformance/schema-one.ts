/** A SQLite file as the first release wrote it: made by its own migration, filled by hand. */
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { CHAIN_START, chainRecord } from "../../src/core/ledger/chain.ts";
import type { RecordType } from "../../src/core/batch/batch.ts";
import { toMap, type Word } from "../support/outcome-words.ts";

const HEART = new URL("../../migrations/sqlite/0001_heart.sql", import.meta.url);
const APPLICATION_ID = 0x534c5543;
const AT = Date.UTC(2026, 0, 1);

/** A chunk and what is known of its items, one word an item. */
export interface OldChunk {
  readonly words: readonly Word[];
  readonly state: "planned" | "leased" | "waiting" | "settled" | "cancelled";
  /** Monotonic: when it may be leased again. */
  readonly dueAt?: number;
}

export interface OldBatch {
  readonly id: string;
  readonly lane: string;
  readonly state: "submitted" | "slicing" | "running" | "completed_with_errors" | "failed";
  readonly chunks: readonly OldChunk[];
  readonly open?: boolean;
  /** It failed while it was being sliced. */
  readonly halfPlanned?: boolean;
}

const STATES_AFTER_SLICING = ["running", "completed_with_errors", "failed"];

/** The worker that holds every leased chunk, under fence 1, for a long time. */
export const OLD_WORKER = 7;

export function writeSchemaOne(path: string, batches: readonly OldBatch[]): void {
  const raw = new DatabaseSync(path);
  raw.exec(readFileSync(HEART, "utf8"));
  raw.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = 1`);
  raw.prepare("INSERT INTO host (one, boot_id) VALUES (1, ?)").run("boot-1");
  raw
    .prepare("INSERT INTO worker (id, name, process, pipelines, registered_at) VALUES (?,?,?,?,?)")
    .run(OLD_WORKER, "old", "gone", '["import"]', AT);
  for (const [index, batch] of batches.entries()) writeBatch(raw, index + 1, batch);
  raw.close();
}

function writeBatch(raw: DatabaseSync, num: number, batch: OldBatch): void {
  const { id, lane, state, chunks, open = false, halfPlanned = false } = batch;
  const ended = state === "completed_with_errors" || state === "failed";
  const sliced = STATES_AFTER_SLICING.includes(state) && !halfPlanned;
  const words = chunks.flatMap((chunk) => chunk.words);
  const count = (word: Word): number => words.filter((one) => one === word).length;
  const types: RecordType[] = [
    "batch.submitted",
    ...(state === "submitted" ? [] : (["batch.started", "slicing.started"] as const)),
    ...(sliced ? (["slicing.finished"] as const) : []),
    ...(ended ? (["batch.ended"] as const) : []),
  ];
  raw
    .prepare(
      `INSERT INTO batch (num, id, pipeline, version, lane, input, input_hash, settings, state,
         open, sealed, reason_code, reason_message, submitted_at, started_at, ended_at, record_hash)
       VALUES (?, ?, 'import', '1', ?, '{}', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      num,
      id,
      lane,
      `hash of ${id}`,
      JSON.stringify({ chunkSize: 2, strict: true }),
      state,
      open ? 1 : 0,
      sliced && !open ? 1 : 0,
      state === "failed" ? "STOPPED" : null,
      state === "failed" ? "somebody stopped it" : null,
      AT,
      state === "submitted" ? null : AT + 1,
      ended ? AT + 2 : null,
      CHAIN_START.hash,
    );
  raw
    .prepare(
      `INSERT INTO step (batch, step, pipeline, version, running, chunks, next_chunk, slice_cursor,
         slice_fence, leasable_at, planned, succeeded, skipped, failed, cancelled, pending)
       VALUES (?, 0, 'import', '1', ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      num,
      state === "running" ? 1 : 0,
      chunks.length,
      chunks.filter((chunk) => chunk.state !== "planned").length,
      state === "slicing" ? "half-way" : null,
      state === "running" ? 0 : null,
      words.length,
      count("succeeded"),
      count("skipped"),
      count("failed"),
      ended ? count("pending") : 0,
      ended ? 0 : count("pending"),
    );
  writeRecords(raw, num, id, types);
  let start = 0;
  for (const [at, chunk] of chunks.entries()) start = writeChunk(raw, num, at, start, chunk);
}

function writeRecords(
  raw: DatabaseSync,
  num: number,
  batch: string,
  types: readonly RecordType[],
): void {
  let head = CHAIN_START;
  const insert = raw.prepare(
    "INSERT INTO record (batch, seq, type, body, hash) VALUES (?, ?, ?, ?, ?)",
  );
  for (const type of types) {
    const at = new Date(AT).toISOString();
    const record = chainRecord(head, { batch, type, at, data: {} }, (text) => hash("sha256", text));
    insert.run(num, record.seq, type, record.body, record.hash);
    head = record;
  }
  raw
    .prepare("UPDATE batch SET record_seq = ?, record_hash = ? WHERE num = ?")
    .run(head.seq, head.hash, num);
}

/** Failed items are dead letters: those with an even number permanent, the others transient. */
function writeChunk(
  raw: DatabaseSync,
  num: number,
  at: number,
  start: number,
  { words, state, dueAt = 0 }: OldChunk,
): number {
  const tracked = words.includes("failed") || dueAt > 0;
  const [fence, until] = [state === "planned" ? 0 : 1, state === "leased" ? 10 ** 9 : 0];
  raw
    .prepare(
      `INSERT INTO chunk (batch, step, chunk, start, finish, state, fence, worker, lease_until,
         due_at, tracked, outcomes) VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .run(
      num,
      at,
      start,
      start + words.length,
      state,
      fence,
      state === "leased" ? OLD_WORKER : 0,
      until,
      dueAt,
      tracked ? 1 : 0,
      toMap(words),
    );
  raw
    .prepare("INSERT INTO manifest (batch, step, chunk, part, items) VALUES (?, 0, ?, 'part', ?)")
    .run(num, at, new TextEncoder().encode(`${num}/${at}`));
  const insertItem = raw.prepare(
    `INSERT INTO item (batch, step, item, key, attempts, deaths, started, dead, due_at,
       error_class, code, message, failed_at) VALUES (?, 0, ?, ?, ?, 0, 0, ?, ?, ?, 'OLD', 'old', ?)`,
  );
  const insertResult = raw.prepare(
    "INSERT INTO result (batch, step, item, key, value) VALUES (?, 0, ?, NULL, ?)",
  );
  for (const [index, word] of words.entries()) {
    const item = start + index;
    const errorClass = item % 2 === 0 ? "permanent" : "transient";
    if (word === "failed") insertItem.run(num, item, `key-${item}`, 4, 1, 0, errorClass, AT + 2);
    if (word === "succeeded") insertResult.run(num, item, `${item}`);
    if (word === "pending" && dueAt > 0) {
      insertItem.run(num, item, `key-${item}`, 1, 0, dueAt, "transient", null);
    }
  }
  return start + words.length;
}
