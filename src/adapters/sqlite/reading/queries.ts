/** Queries about batches in SQL. */
import type { StatementSync } from "node:sqlite";
import {
  collectItems,
  findOutcomeCode,
  type ItemNumbers,
  type MappedChunk,
} from "../../../core/items/outcome-list.ts";
import { getOutcome } from "../../../core/items/outcome-map.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import {
  type BatchFilter,
  type ItemPage,
  type ItemPlace,
  OUTCOME_WORDS,
  type Recount,
  type ResultPage,
  type StoredRecord,
  type StoredResult,
} from "../../../ports/store/query-store.ts";
import type { Connection } from "../connection/connection.ts";
import { runNow } from "../../sql/rules/act.ts";
import type { DeadLetters } from "../../sql/rules/dead-letters.ts";
import { type MapRow, Recounting } from "../../sql/recounting.ts";
import { type BatchRow, type ItemRow, readCheckpoint, toSnapshot } from "../../sql/rows.ts";
import { PAUSE_OF_BATCH, SELECT_BATCH } from "../connection/rows.ts";
import type { Steps } from "../../sql/rules/steps.ts";

export class Queries {
  readonly #connection: Connection;
  readonly #deadLetters: DeadLetters;
  readonly #steps: Steps;
  readonly #hasUnsliced: StatementSync;
  readonly #selectUnsliced: StatementSync;
  readonly #selectManifests: StatementSync;
  readonly #selectResults: StatementSync;
  readonly #selectNewResults: StatementSync;
  readonly #selectPlace: StatementSync;
  readonly #selectCheckpoint: StatementSync;
  readonly #selectOverride: StatementSync;
  readonly #selectRecords: StatementSync;
  readonly #selectRecordsOf: StatementSync;
  readonly #selectLastPosition: StatementSync;
  readonly #selectMaps: StatementSync;
  readonly #selectMapsFrom: StatementSync;

  constructor(connection: Connection, deadLetters: DeadLetters, steps: Steps) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#connection = connection;
    this.#deadLetters = deadLetters;
    this.#steps = steps;
    this.#hasUnsliced = prepare(
      `SELECT 1 FROM batch INDEXED BY batch_unsliced
       WHERE pipeline = ? AND state IN ('submitted', 'slicing') AND active = 1 LIMIT 1`,
    );
    this.#selectUnsliced = prepare(
      `${SELECT_BATCH.replace("FROM batch b", "FROM batch b INDEXED BY batch_unsliced")}
       WHERE b.pipeline = ? AND b.state IN ('submitted', 'slicing') AND b.active = 1
         AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL ORDER BY b.num LIMIT ?`,
    );
    this.#selectManifests = prepare(
      `SELECT items FROM manifest WHERE batch = ? AND step = ? AND chunk >= ? AND chunk < ?
       ORDER BY chunk`,
    );
    this.#selectResults = prepare(
      `SELECT step, item, key, value FROM result
       WHERE batch = ? AND step = ? AND item > ? ORDER BY item LIMIT ?`,
    );
    // The few results of a redrive have their own index.
    this.#selectNewResults = prepare(
      `SELECT step, item, key, value FROM result INDEXED BY result_of_redrive
       WHERE batch = ? AND step = ? AND item > ? AND drive >= ? AND drive > 1
       ORDER BY item LIMIT ?`,
    );
    this.#selectPlace = prepare(
      `SELECT start, finish, locator, state, outcomes FROM chunk
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#selectCheckpoint = prepare(
      `SELECT checkpoint_name, checkpoint_data FROM item
       WHERE batch = ? AND step = ? AND item = ?`,
    );
    this.#selectOverride = prepare(
      "SELECT value FROM override WHERE batch = ? AND step = ? AND item = ?",
    );
    const records = `SELECT r.position, b.id AS batch, r.seq, r.type, r.body, r.hash
       FROM record r JOIN batch b ON b.num = r.batch`;
    this.#selectRecords = prepare(`${records} WHERE r.position > ? ORDER BY r.position LIMIT ?`);
    this.#selectRecordsOf = prepare(
      `${records} WHERE b.id = ? AND r.position > ? ORDER BY r.seq LIMIT ?`,
    );
    this.#selectLastPosition = prepare("SELECT max(position) AS position FROM record");
    this.#selectMaps = prepare(
      "SELECT finish - start AS items, outcomes FROM chunk WHERE batch = ?",
    );
    this.#selectMapsFrom = prepare(
      `SELECT start, finish AS "end", outcomes FROM chunk
       WHERE batch = ? AND step = ? AND chunk >= ? ORDER BY chunk`,
    );
  }

  /** Composed from the filter, so that the planner can use the matching index. */
  listBatches({ pipeline, lane, states, limit }: BatchFilter): BatchSnapshot[] {
    const conditions = [
      ...(pipeline === undefined ? [] : ["b.pipeline = ?"]),
      ...(lane === undefined ? [] : ["b.lane = ?"]),
      ...(states === undefined ? [] : [`b.state IN (${states.map((s) => `'${s}'`).join(", ")})`]),
    ];
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const select = this.#connection.prepare(`${SELECT_BATCH} ${where} ORDER BY b.num DESC LIMIT ?`);
    const values = [pipeline, lane, limit].filter((value) => value !== undefined);
    return (select.all(...values) as unknown as BatchRow[]).map(toSnapshot);
  }

  listUnsliced(pipeline: string, limit: number): BatchSnapshot[] {
    // Called after every commit, and almost always without a result.
    if (this.#hasUnsliced.get(pipeline) === undefined) return [];
    return (this.#selectUnsliced.all(pipeline, limit) as unknown as BatchRow[]).map(toSnapshot);
  }

  readManifests(num: number, step: number, fromChunk: number, toChunk: number): Uint8Array[] {
    const rows = this.#selectManifests.all(num, step, fromChunk, toChunk);
    return (rows as unknown as { items: Uint8Array }[]).map(({ items }) => items);
  }

  readResults(num: number, { step, afterItem, limit, sinceDrive }: ResultPage): StoredResult[] {
    const rows =
      sinceDrive <= 1
        ? this.#selectResults.all(num, step, afterItem, limit)
        : this.#selectNewResults.all(num, step, afterItem, sinceDrive, limit);
    return (rows as unknown as StoredResult[]).map(({ item, key, value }) => ({
      step,
      item,
      key,
      value,
    }));
  }

  listItems(batch: BatchRow, { step, outcome, ...page }: ItemPage): ItemNumbers {
    const code = findOutcomeCode(outcome, batch.ended_at !== null);
    const { rules } = this.#connection.transaction;
    const from = runNow(this.#steps.findChunk(rules, batch.num, step, page.afterItem + 1));
    if (code === null || from === null) return { items: [], next: null };
    const chunks = this.#selectMapsFrom.iterate(batch.num, step, from);
    return collectItems(chunks as unknown as Iterable<MappedChunk>, code, page);
  }

  findItem(num: number, step: number, item: number): ItemPlace | null {
    const { rules } = this.#connection.transaction;
    const chunk = runNow(this.#steps.findChunk(rules, num, step, item));
    if (chunk === null) return null;
    type Row = Pick<ItemPlace, "start" | "locator" | "state"> & {
      readonly finish: number;
      readonly outcomes: Uint8Array;
    };
    const row = this.#selectPlace.get(num, step, chunk) as unknown as Row;
    const { start, finish, locator, state, outcomes } = row;
    const known = this.#selectCheckpoint.get(num, step, item) as ItemRow | undefined;
    const override = this.#selectOverride.get(num, step, item) as { value: string } | undefined;
    return {
      chunk,
      start,
      end: finish,
      locator,
      state,
      outcome: OUTCOME_WORDS[getOutcome(outcomes, item - start)],
      override: override?.value ?? null,
      checkpoint: known === undefined ? null : readCheckpoint(known),
      letter: runNow(this.#deadLetters.find(rules, num, step, item)),
    };
  }

  readRecords(batch: string | null, afterPosition: number, limit: number): StoredRecord[] {
    const rows =
      batch === null
        ? this.#selectRecords.all(afterPosition, limit)
        : this.#selectRecordsOf.all(batch, afterPosition, limit);
    return (rows as unknown as StoredRecord[]).map((row) => ({ ...row }));
  }

  readLastPosition(): number {
    const row = this.#selectLastPosition.get() as { position: number | null };
    return row.position ?? 0;
  }

  recount(batch: BatchRow): Recount {
    const recounting = new Recounting();
    for (const row of this.#selectMaps.iterate(batch.num)) {
      recounting.add(row as unknown as MapRow);
    }
    return recounting.finish(batch);
  }
}
