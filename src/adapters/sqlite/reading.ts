/** Looking at batches in SQL. */
import type { StatementSync } from "node:sqlite";
import { isEnded } from "../../core/batch.ts";
import { cancelPending } from "../../core/counts.ts";
import type { ErrorClass } from "../../core/errors.ts";
import { countOutcomes } from "../../core/outcome-map.ts";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import type {
  BatchFilter,
  DeadLetter,
  PageRequest,
  Recount,
  StoredRecord,
  StoredResult,
} from "../../ports/reading.ts";
import type { Connection } from "./connection.ts";
import { type BatchRow, type ItemRow, readCounts, SELECT_BATCH, toSnapshot } from "./rows.ts";

export class Reading {
  readonly #connection: Connection;
  readonly #selectManifests: StatementSync;
  readonly #selectResults: StatementSync;
  readonly #selectDead: StatementSync;
  readonly #selectRecords: StatementSync;
  readonly #selectRecordsOf: StatementSync;
  readonly #selectMaps: StatementSync;

  constructor(connection: Connection) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#connection = connection;
    this.#selectManifests = prepare(
      `SELECT items FROM manifest WHERE batch = ? AND step = ? AND chunk >= ? AND chunk < ?
       ORDER BY chunk`,
    );
    this.#selectResults = prepare(
      `SELECT step, item, key, value FROM result
       WHERE batch = ? AND step = 0 AND item > ? ORDER BY item LIMIT ?`,
    );
    this.#selectDead = prepare(
      `SELECT step, item, key, attempts, deaths, error_class, code, message, failed_at FROM item
       WHERE batch = ? AND step = 0 AND item > ? AND dead = 1 ORDER BY item LIMIT ?`,
    );
    const records = `SELECT r.position, b.id AS batch, r.seq, r.type, r.body, r.hash
       FROM record r JOIN batch b ON b.num = r.batch`;
    this.#selectRecords = prepare(`${records} WHERE r.position > ? ORDER BY r.position LIMIT ?`);
    this.#selectRecordsOf = prepare(
      `${records} WHERE b.id = ? AND r.position > ? ORDER BY r.seq LIMIT ?`,
    );
    this.#selectMaps = prepare(
      "SELECT finish - start AS items, outcomes FROM chunk WHERE batch = ?",
    );
  }

  /** Composed from what is asked for, so that the planner can use the index that fits. */
  listBatches({ pipeline, states, limit }: BatchFilter): BatchSnapshot[] {
    const conditions = [
      ...(pipeline === undefined ? [] : ["b.pipeline = ?"]),
      ...(states === undefined ? [] : [`b.state IN (${states.map((s) => `'${s}'`).join(", ")})`]),
    ];
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const select = this.#connection.prepare(`${SELECT_BATCH} ${where} ORDER BY b.num DESC LIMIT ?`);
    const values = pipeline === undefined ? [limit] : [pipeline, limit];
    return (select.all(...values) as unknown as BatchRow[]).map(toSnapshot);
  }

  readManifests(num: number, step: number, fromChunk: number, toChunk: number): Uint8Array[] {
    const rows = this.#selectManifests.all(num, step, fromChunk, toChunk);
    return (rows as unknown as { items: Uint8Array }[]).map(({ items }) => items);
  }

  readResults(num: number, { afterItem, limit }: PageRequest): StoredResult[] {
    const rows = this.#selectResults.all(num, afterItem, limit) as unknown as StoredResult[];
    return rows.map(({ step, item, key, value }) => ({ step, item, key, value }));
  }

  readDeadLetters(num: number, { afterItem, limit }: PageRequest): DeadLetter[] {
    type Row = ItemRow & { step: number; failed_at: number };
    const rows = this.#selectDead.all(num, afterItem, limit) as unknown as Row[];
    return rows.map(({ step, item, key, attempts, deaths, ...row }) => ({
      step,
      item,
      key,
      attempts,
      deaths,
      errorClass: row.error_class as ErrorClass,
      code: row.code ?? "",
      message: row.message ?? "",
      failedAt: row.failed_at,
    }));
  }

  readRecords(batch: string | null, afterPosition: number, limit: number): StoredRecord[] {
    const rows =
      batch === null
        ? this.#selectRecords.all(afterPosition, limit)
        : this.#selectRecordsOf.all(batch, afterPosition, limit);
    return (rows as unknown as StoredRecord[]).map((row) => ({ ...row }));
  }

  recount(batch: BatchRow): Recount {
    const sum = { planned: 0, succeeded: 0, skipped: 0, failed: 0 };
    for (const row of this.#selectMaps.iterate(batch.num)) {
      const { items, outcomes } = row as unknown as { items: number; outcomes: Uint8Array };
      const counted = countOutcomes(outcomes);
      sum.planned += items;
      sum.succeeded += counted.succeeded;
      sum.skipped += counted.skipped;
      sum.failed += counted.failed;
    }
    const pending = sum.planned - sum.succeeded - sum.skipped - sum.failed;
    const recounted = { ...sum, cancelled: 0, pending };
    return {
      counters: readCounts(batch),
      recounted: isEnded(batch.state) ? cancelPending(recounted) : recounted,
    };
  }
}
