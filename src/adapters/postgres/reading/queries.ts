/** Queries about batches in SQL. */
import { runAct } from "../../sql/rules/act.ts";
import {
  CHUNKS_SCANNED_MAX,
  collectItems,
  findOutcomeCode,
  type ItemNumbers,
  type MappedChunk,
} from "../../../core/items/outcome-list.ts";
import { getOutcome, type OutcomeCode } from "../../../core/items/outcome-map.ts";
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
import { type MapRow, Recounting } from "../../sql/recounting.ts";
import { type BatchRow, type ItemRow, readCheckpoint, toSnapshot } from "../../sql/rows.ts";
import { composeRunOf } from "../chunks/lease-runs.ts";
import type { DeadLetters } from "../../sql/rules/dead-letters.ts";
import { PAUSE_OF_BATCH, SELECT_BATCH } from "../connection/rows.ts";
import { type Statement, statement, type Value } from "../connection/statement.ts";
import type { Steps } from "../../sql/rules/steps.ts";
import type { Transaction } from "../connection/transaction.ts";

/** Outcome maps that are read at once. */
const MAPS_PAGE = 500;

const SELECT_UNSLICED = statement(
  `${SELECT_BATCH} WHERE b.pipeline = $1 AND b.state IN ('submitted', 'slicing') AND b.active = 1
     AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL ORDER BY b.num LIMIT $2`,
);
const SELECT_MANIFESTS = statement(
  `SELECT items FROM manifest WHERE batch = $1 AND step = $2 AND chunk >= $3 AND chunk < $4
   ORDER BY chunk`,
);
const SELECT_RESULTS = statement(
  `SELECT step, item, key, value FROM result
   WHERE batch = $1 AND step = $2 AND item > $3 ORDER BY item LIMIT $4`,
);
// The few results of a redrive have their own index.
const SELECT_NEW_RESULTS = statement(
  `SELECT step, item, key, value FROM result
   WHERE batch = $1 AND step = $2 AND item > $3 AND drive >= $4 AND drive > 1
   ORDER BY item LIMIT $5`,
);
const SELECT_PLACE = statement(
  `SELECT c.start, c.finish, c.locator, c.outcomes, CASE WHEN EXISTS (
     ${composeRunOf("c.state = 'planned'")}) THEN 'leased' ELSE c.state END AS state
   FROM chunk c WHERE c.batch = $1 AND c.step = $2 AND c.chunk = $3`,
);
const SELECT_CHECKPOINT = statement(
  `SELECT checkpoint_name, checkpoint_data FROM item
   WHERE batch = $1 AND step = $2 AND item = $3`,
);
const SELECT_OVERRIDE = statement(
  "SELECT value FROM override WHERE batch = $1 AND step = $2 AND item = $3",
);
const RECORDS = `SELECT r.position, b.id AS batch, r.seq, r.type, r.body, r.hash
  FROM record r JOIN batch b ON b.num = r.batch`;
const SELECT_RECORDS = statement(`${RECORDS} WHERE r.position > $1 ORDER BY r.position LIMIT $2`);
const SELECT_RECORDS_OF = statement(
  `${RECORDS} WHERE b.id = $1 AND r.position > $2 ORDER BY r.seq LIMIT $3`,
);
const SELECT_LAST_POSITION = statement("SELECT max(position) AS position FROM record");
const SELECT_MAPS = statement(
  `SELECT step, chunk, finish - start AS items, outcomes FROM chunk
   WHERE batch = $1 AND (step, chunk) > ($2::int, $3::int)
   ORDER BY step, chunk LIMIT ${MAPS_PAGE}`,
);
const SELECT_MAPS_FROM = statement(
  `SELECT chunk, start, finish AS "end", outcomes FROM chunk
   WHERE batch = $1 AND step = $2 AND chunk >= $3 ORDER BY chunk LIMIT ${MAPS_PAGE}`,
);

export class Queries {
  readonly #deadLetters: DeadLetters;
  readonly #steps: Steps;

  constructor(deadLetters: DeadLetters, steps: Steps) {
    this.#deadLetters = deadLetters;
    this.#steps = steps;
  }

  async listBatches(tx: Transaction, filter: BatchFilter): Promise<BatchSnapshot[]> {
    const { select, values } = composeList(filter);
    return (await tx.all<BatchRow>(select, ...values)).map(toSnapshot);
  }

  async listUnsliced(tx: Transaction, pipeline: string, limit: number): Promise<BatchSnapshot[]> {
    return (await tx.all<BatchRow>(SELECT_UNSLICED, pipeline, limit)).map(toSnapshot);
  }

  async readManifests(
    tx: Transaction,
    num: number,
    step: number,
    fromChunk: number,
    toChunk: number,
  ): Promise<Uint8Array[]> {
    type Row = { readonly items: Uint8Array };
    const rows = await tx.all<Row>(SELECT_MANIFESTS, num, step, fromChunk, toChunk);
    return rows.map(({ items }) => items);
  }

  async readResults(
    tx: Transaction,
    num: number,
    { step, afterItem, limit, sinceDrive }: ResultPage,
  ): Promise<StoredResult[]> {
    return sinceDrive <= 1
      ? tx.all<StoredResult>(SELECT_RESULTS, num, step, afterItem, limit)
      : tx.all<StoredResult>(SELECT_NEW_RESULTS, num, step, afterItem, sinceDrive, limit);
  }

  async listItems(
    tx: Transaction,
    batch: BatchRow,
    { step, outcome, ...page }: ItemPage,
  ): Promise<ItemNumbers> {
    const code = findOutcomeCode(outcome, batch.ended_at !== null);
    if (code === null) return { items: [], next: null };
    const from = await runAct(this.#steps.findChunk(tx.rules, batch.num, step, page.afterItem + 1));
    if (from === null) return { items: [], next: null };
    return this.#collect(tx, { num: batch.num, step, from, code, ...page });
  }

  /** A few maps at a time, and no more than one page needs. */
  async #collect(tx: Transaction, search: Search): Promise<ItemNumbers> {
    const { num, step, code, limit } = search;
    const items: number[] = [];
    let { from, afterItem } = search;
    for (let scanned = 0; ; ) {
      type Row = MappedChunk & { readonly chunk: number };
      const rows = await tx.all<Row>(SELECT_MAPS_FROM, num, step, from);
      const found = collectItems(rows, code, { afterItem, limit: limit - items.length });
      for (const item of found.items) items.push(item);
      const last = rows.at(-1);
      if (found.next !== null || last === undefined || rows.length < MAPS_PAGE) {
        return { items, next: found.next };
      }
      scanned += rows.length;
      afterItem = last.end - 1;
      if (scanned >= CHUNKS_SCANNED_MAX) return { items, next: afterItem };
      from = last.chunk + 1;
    }
  }

  async findItem(
    tx: Transaction,
    num: number,
    step: number,
    item: number,
  ): Promise<ItemPlace | null> {
    const chunk = await runAct(this.#steps.findChunk(tx.rules, num, step, item));
    if (chunk === null) return null;
    type Row = Pick<ItemPlace, "start" | "locator" | "state"> & {
      readonly finish: number;
      readonly outcomes: Uint8Array;
    };
    const [row, known, override, letter] = await Promise.all([
      tx.get<Row>(SELECT_PLACE, num, step, chunk) as Promise<Row>,
      tx.get<ItemRow>(SELECT_CHECKPOINT, num, step, item),
      tx.get<{ readonly value: string }>(SELECT_OVERRIDE, num, step, item),
      runAct(this.#deadLetters.find(tx.rules, num, step, item)),
    ]);
    const { start, finish, locator, state, outcomes } = row;
    return {
      chunk,
      start,
      end: finish,
      locator,
      state,
      outcome: OUTCOME_WORDS[getOutcome(outcomes, item - start)],
      override: override?.value ?? null,
      checkpoint: known === undefined ? null : readCheckpoint(known),
      letter,
    };
  }

  async readRecords(
    tx: Transaction,
    batch: string | null,
    afterPosition: number,
    limit: number,
  ): Promise<StoredRecord[]> {
    return batch === null
      ? tx.all<StoredRecord>(SELECT_RECORDS, afterPosition, limit)
      : tx.all<StoredRecord>(SELECT_RECORDS_OF, batch, afterPosition, limit);
  }

  async readLastPosition(tx: Transaction): Promise<number> {
    const row = await tx.get<{ readonly position: number | null }>(SELECT_LAST_POSITION);
    return row?.position ?? 0;
  }

  async recount(tx: Transaction, batch: BatchRow): Promise<Recount> {
    const recounting = new Recounting();
    type Row = MapRow & { readonly step: number; readonly chunk: number };
    for (let [step, chunk] = [0, -1]; ; ) {
      const rows = await tx.all<Row>(SELECT_MAPS, batch.num, step, chunk);
      for (const row of rows) recounting.add(row);
      const last = rows.at(-1);
      if (last === undefined || rows.length < MAPS_PAGE) return recounting.finish(batch);
      ({ step, chunk } = last);
    }
  }
}

interface Search {
  readonly num: number;
  readonly step: number;
  /** The chunk where the search begins. */
  readonly from: number;
  readonly code: OutcomeCode;
  readonly afterItem: number;
  readonly limit: number;
}

/** Composed from the filter, so that the planner can use the matching index. */
function composeList({ pipeline, lane, states, limit }: BatchFilter): {
  readonly select: Statement;
  readonly values: readonly Value[];
} {
  const values: Value[] = [limit];
  const conditions: string[] = [];
  const add = (condition: string, value: Value | undefined): void => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(condition.replace("?", `$${values.length}`));
  };
  add("b.pipeline = ?", pipeline);
  add("b.lane = ?", lane);
  add("b.state = ANY(?::text[])", states);
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
  return {
    select: statement(`${SELECT_BATCH} ${where} ORDER BY b.num DESC LIMIT $1`),
    values,
  };
}
