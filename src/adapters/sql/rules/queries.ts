/** Queries about batches. */
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
import { CHUNK_STATE } from "../lease-run-of.ts";
import { type MapRow, Recounting } from "../recounting.ts";
import { type BatchRow, type ItemRow, readCheckpoint, toSnapshot } from "../rows.ts";
import { type Act, together } from "../dialect/act.ts";
import { PAUSE_OF_BATCH, SELECT_BATCH } from "./columns.ts";
import type { DeadLetters } from "./dead-letters.ts";
import { type SharedStatement, statement, type Value } from "../dialect/statement.ts";
import type { Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** Outcome maps that are read at once. */
const MAPS_PAGE = 500;

const FIND_UNSLICED = statement(
  `SELECT 1 AS one FROM batch /*sqlite INDEXED BY batch_unsliced*/
   WHERE pipeline = $1 AND state IN ('submitted', 'slicing') AND active = 1 LIMIT 1`,
);
const SELECT_UNSLICED = statement(
  `${SELECT_BATCH.replace("FROM batch b", "FROM batch b /*sqlite INDEXED BY batch_unsliced*/")}
   WHERE b.pipeline = $1 AND b.state IN ('submitted', 'slicing') AND b.active = 1
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
  `SELECT step, item, key, value FROM result /*sqlite INDEXED BY result_of_redrive*/
   WHERE batch = $1 AND step = $2 AND item > $3 AND drive >= $4 AND drive > 1
   ORDER BY item LIMIT $5`,
);
const FIND_PLACE = statement(
  `SELECT c.start, c.finish, c.locator, c.outcomes, ${CHUNK_STATE} AS state
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
   WHERE batch = $1 AND (step, chunk) > (CAST($2 AS int), CAST($3 AS int))
   ORDER BY step, chunk LIMIT ${MAPS_PAGE}`,
);
const SELECT_MAPS_FROM = statement(
  `SELECT chunk, start, finish AS "end", outcomes FROM chunk
   WHERE batch = $1 AND step = $2 AND chunk >= $3 ORDER BY chunk LIMIT ${MAPS_PAGE}`,
);

export class Queries {
  readonly #deadLetters: DeadLetters;
  readonly #steps: Steps;
  readonly #lists = new Map<string, SharedStatement>();

  constructor(deadLetters: DeadLetters, steps: Steps) {
    this.#deadLetters = deadLetters;
    this.#steps = steps;
  }

  /** Composed from the filter, so that the planner can use the matching index. */
  *listBatches(
    tx: RuleTransaction,
    { pipeline, lane, states, limit }: BatchFilter,
  ): Act<BatchSnapshot[]> {
    const values: Value[] = [limit];
    const conditions: string[] = [];
    const add = (value: Value | undefined, compose: (parameter: string) => string): void => {
      if (value === undefined) return;
      values.push(value);
      conditions.push(compose(`$${values.length}`));
    };
    add(pipeline, (at) => `b.pipeline = ${at}`);
    add(lane, (at) => `b.lane = ${at}`);
    add(
      states,
      (at) => `b.state /*sqlite IN (SELECT value FROM json_each(${at}))*/
        /*postgres = ANY(${at}::text[])*/`,
    );
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const select = this.#findList(`${SELECT_BATCH} ${where} ORDER BY b.num DESC LIMIT $1`);
    return (yield* tx.all<BatchRow>(select, ...values)).map(toSnapshot);
  }

  /** A statement is prepared once. */
  #findList(text: string): SharedStatement {
    const known = this.#lists.get(text) ?? statement(text);
    this.#lists.set(text, known);
    return known;
  }

  *listUnsliced(tx: RuleTransaction, pipeline: string, limit: number): Act<BatchSnapshot[]> {
    // Called after every commit, and almost always without a result: where asking costs little, a
    // small question first. It took a fiftieth off a batch of a million items.
    if (!tx.isRemote && (yield* tx.get(FIND_UNSLICED, pipeline)) === undefined) return [];
    return (yield* tx.all<BatchRow>(SELECT_UNSLICED, pipeline, limit)).map(toSnapshot);
  }

  *readManifests(
    tx: RuleTransaction,
    num: number,
    step: number,
    fromChunk: number,
    toChunk: number,
  ): Act<Uint8Array[]> {
    type Row = { readonly items: Uint8Array };
    const rows = yield* tx.all<Row>(SELECT_MANIFESTS, num, step, fromChunk, toChunk);
    return rows.map(({ items }) => items);
  }

  *readResults(
    tx: RuleTransaction,
    num: number,
    { step, afterItem, limit, sinceDrive }: ResultPage,
  ): Act<StoredResult[]> {
    const rows = yield* sinceDrive <= 1
      ? tx.all<StoredResult>(SELECT_RESULTS, num, step, afterItem, limit)
      : tx.all<StoredResult>(SELECT_NEW_RESULTS, num, step, afterItem, sinceDrive, limit);
    return rows.map((row) => ({ ...row }));
  }

  *listItems(
    tx: RuleTransaction,
    batch: BatchRow,
    { step, outcome, ...page }: ItemPage,
  ): Act<ItemNumbers> {
    const code = findOutcomeCode(outcome, batch.ended_at !== null);
    if (code === null) return { items: [], next: null };
    const from = yield* this.#steps.findChunk(tx, batch.num, step, page.afterItem + 1);
    if (from === null) return { items: [], next: null };
    return yield* this.#collect(tx, { num: batch.num, step, from, code, ...page });
  }

  /** A few maps at a time, and no more than one page needs. */
  *#collect(tx: RuleTransaction, search: Search): Act<ItemNumbers> {
    const { num, step, code, limit } = search;
    const items: number[] = [];
    let { from, afterItem } = search;
    for (let scanned = 0; ; ) {
      type Row = MappedChunk & { readonly chunk: number };
      const rows = yield* tx.all<Row>(SELECT_MAPS_FROM, num, step, from);
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

  *findItem(tx: RuleTransaction, num: number, step: number, item: number): Act<ItemPlace | null> {
    const chunk = yield* this.#steps.findChunk(tx, num, step, item);
    if (chunk === null) return null;
    type Row = Pick<ItemPlace, "start" | "locator" | "state"> & {
      readonly finish: number;
      readonly outcomes: Uint8Array;
    };
    const [row, known, override, letter] = yield* together(
      tx.get<Row>(FIND_PLACE, num, step, chunk),
      tx.get<ItemRow>(SELECT_CHECKPOINT, num, step, item),
      tx.get<{ readonly value: string }>(SELECT_OVERRIDE, num, step, item),
      this.#deadLetters.find(tx, num, step, item),
    );
    const { start, finish, locator, state, outcomes } = row as Row;
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

  *readRecords(
    tx: RuleTransaction,
    batch: string | null,
    afterPosition: number,
    limit: number,
  ): Act<StoredRecord[]> {
    const rows = yield* batch === null
      ? tx.all<StoredRecord>(SELECT_RECORDS, afterPosition, limit)
      : tx.all<StoredRecord>(SELECT_RECORDS_OF, batch, afterPosition, limit);
    return rows.map((row) => ({ ...row }));
  }

  *readLastPosition(tx: RuleTransaction): Act<number> {
    const row = yield* tx.get<{ readonly position: number | null }>(SELECT_LAST_POSITION);
    return row?.position ?? 0;
  }

  *recount(tx: RuleTransaction, batch: BatchRow): Act<Recount> {
    const recounting = new Recounting();
    type Row = MapRow & { readonly step: number; readonly chunk: number };
    for (let [step, chunk] = [0, -1]; ; ) {
      const rows = yield* tx.all<Row>(SELECT_MAPS, batch.num, step, chunk);
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
