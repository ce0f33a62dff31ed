/** Puts dead letters, and items that an early end cancelled, back to work. */
import { invariant } from "../../../core/base/invariant.ts";
import { decideRedrive, decideRevival } from "../../../core/items/redrive.ts";
import type { TrackedItem } from "../../../core/items/tracked-item.ts";
import { describeRedriven } from "../../../core/ledger/item-ledger.ts";
import type { RedrivenChunkRow, RedrivenItem, RevivedChunkRow } from "../redrive.ts";
import { type ItemRow, toTrackedItem } from "../rows.ts";
import type { Act } from "../dialect/act.ts";
import { byKey } from "../dialect/by-key.ts";
import { ITEM_COLUMNS } from "./columns.ts";
import { appendLinks } from "./item-links.ts";
import type { RecordLog } from "./records.ts";
import { statement } from "../dialect/statement.ts";
import { CHUNK_OF_ITEM, type Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

type StepChunkRow = RevivedChunkRow & { readonly step: number };

/** The next dead letters to redrive, in item order; empty after the last. */
export type NextItems = () => Act<readonly RedrivenItem[]>;

/** Cancelled chunks that are revived at once. */
const PAGE = 1_000;

const CHUNK_COLUMNS = "chunk, start, finish, outcomes, losses";

const FIND_CHUNK = statement(
  `SELECT ${CHUNK_COLUMNS}, fence,
     (SELECT b.item_ledger FROM batch b WHERE b.num = $1) AS item_ledger FROM chunk
   WHERE batch = $1 AND step = $2 AND chunk = (${CHUNK_OF_ITEM})`,
);
const SELECT_TRACKED = statement(
  `SELECT ${ITEM_COLUMNS} FROM item
   WHERE batch = $1 AND step = $2 AND item >= $3 AND item < $4 AND dead = 1 ORDER BY item`,
);
const UPDATE_CHUNK = statement(
  `UPDATE chunk SET outcomes = $4,
     due_at = CASE WHEN state = 'waiting' AND due_at < $5 THEN due_at ELSE $5 END,
     state = 'waiting', rest_hold_up = NULL, rest_key = NULL
   WHERE batch = $1 AND step = $2 AND chunk = $3`,
);
const UPDATE_ITEMS = statement(
  `UPDATE item SET attempts = 0, deaths = 0, started = 0, dead = 0,
     due_at = /*sqlite $5*//*postgres n.due_at*/,
     error_class = NULL, code = NULL, message = NULL, failed_at = NULL, drive = $3
   /*sqlite WHERE batch = $1 AND step = $2 AND item = $4*/
   /*postgres FROM unnest($4::bigint[], $5::bigint[]) AS n(item, due_at)
   ${byKey("item", "batch = $1 AND step = $2 AND item = n.item")} WHERE item.ctid = found.ctid*/`,
);
const UPDATE_STEP = statement(
  `UPDATE step SET failed = failed - $3, pending = pending + $3,
     failed_permanent = failed_permanent - $4, failed_transient = failed_transient - $5,
     failed_unexpected = failed_unexpected - $6 WHERE batch = $1 AND step = $2`,
);
const SELECT_CANCELLED = statement(
  `SELECT step, ${CHUNK_COLUMNS} FROM chunk
   WHERE batch = $1 AND state = 'cancelled' AND (step, chunk) > ($2, $3)
   ORDER BY step, chunk LIMIT $4`,
);
const SELECT_LIVING = statement(
  `/*sqlite SELECT $2 AS step, $3 AS start, ${ITEM_COLUMNS} FROM item
     WHERE batch = $1 AND step = $2 AND item >= $3 AND item < $4 AND dead = 0 ORDER BY item*/
   /*postgres SELECT r.step, r.start, i.*
   FROM unnest($2::int[], $3::bigint[], $4::bigint[]) AS r(step, start, finish)
   CROSS JOIN LATERAL (
     SELECT ${ITEM_COLUMNS} FROM item WHERE item.batch = $1 AND item.step = r.step
       AND item.item >= r.start AND item.item < r.finish AND item.dead = 0
     ORDER BY item.item) AS i*/`,
);
const ITEM = "batch = $1 AND step = n.step AND item = n.item";
const DELETE_ITEMS = statement(
  `DELETE FROM item
   /*sqlite WHERE batch = $1 AND step = $2 AND item = $3*/
   /*postgres USING unnest($2::int[], $3::bigint[]) AS n(step, item)
   ${byKey("item", ITEM)} WHERE item.ctid = found.ctid*/`,
);
const FORGET_STARTS = statement(
  `UPDATE item SET started = 0
   /*sqlite WHERE batch = $1 AND step = $2 AND item = $3*/
   /*postgres FROM unnest($2::int[], $3::bigint[]) AS n(step, item)
   ${byKey("item", ITEM)} WHERE item.ctid = found.ctid*/`,
);
const REVIVE_CHUNKS = statement(
  `UPDATE chunk SET state = 'waiting', due_at = /*sqlite $4*//*postgres n.due_at*/,
     rest_hold_up = NULL, rest_key = NULL
   /*sqlite WHERE batch = $1 AND step = $2 AND chunk = $3*/
   /*postgres FROM unnest($2::int[], $3::int[], $4::bigint[]) AS n(step, chunk, due_at)
   ${byKey("chunk", "batch = $1 AND step = n.step AND chunk = n.chunk")}
   WHERE chunk.ctid = found.ctid*/`,
);
const REVIVE_STEPS = statement(
  "UPDATE step SET pending = pending + cancelled, cancelled = 0 WHERE batch = $1",
);
const UPDATE_DRIVE = statement("UPDATE batch SET drive = $2 WHERE num = $1");

export class Redriving {
  readonly #records: RecordLog;
  readonly #steps: Steps;

  constructor(records: RecordLog, steps: Steps) {
    this.#records = records;
    this.#steps = steps;
  }

  /** Items that an early end cancelled are pending again. */
  *revive(tx: RuleTransaction, num: number, now: number): Act<void> {
    for (let after = { step: -1, chunk: -1 }; ; ) {
      const page = yield* tx.all<StepChunkRow>(
        SELECT_CANCELLED,
        num,
        after.step,
        after.chunk,
        PAGE,
      );
      const last = page.at(-1);
      if (last === undefined) break;
      yield* this.#reviveChunks(tx, num, page, now);
      after = last;
    }
    tx.send(REVIVE_STEPS, num);
  }

  *#reviveChunks(
    tx: RuleTransaction,
    num: number,
    chunks: readonly StepChunkRow[],
    now: number,
  ): Act<void> {
    const living = yield* this.#readLiving(tx, num, chunks);
    const untracked: { readonly step: number; readonly item: number }[] = [];
    const unstarted: { readonly step: number; readonly item: number }[] = [];
    const dueAts: number[] = [];
    for (const { step, start, finish, outcomes, losses } of chunks) {
      const tracked = living.get(`${step}/${start}`) ?? [];
      const stored = { items: finish - start, outcomes, tracked, losses };
      const { track, untrack, dueAt } = decideRevival(stored, now);
      untracked.push(...untrack.map((index) => ({ step, item: start + index })));
      unstarted.push(...track.map(({ index }) => ({ step, item: start + index })));
      dueAts.push(Math.floor(dueAt));
    }
    for (const [change, items] of [
      [DELETE_ITEMS, untracked],
      [FORGET_STARTS, unstarted],
    ] as const) {
      const ofSteps = items.map(({ step }) => step);
      tx.sendEach(
        change,
        [num],
        ofSteps,
        items.map(({ item }) => item),
      );
    }
    const steps = chunks.map(({ step }) => step);
    tx.sendEach(
      REVIVE_CHUNKS,
      [num],
      steps,
      chunks.map(({ chunk }) => chunk),
      dueAts,
    );
  }

  /** By step and start of their chunk. */
  *#readLiving(
    tx: RuleTransaction,
    num: number,
    chunks: readonly StepChunkRow[],
  ): Act<Map<string, TrackedItem[]>> {
    const rows = yield* tx.allEach<ItemRow & { readonly step: number; readonly start: number }>(
      SELECT_LIVING,
      [num],
      chunks.map(({ step }) => step),
      chunks.map(({ start }) => start),
      chunks.map(({ finish }) => finish),
    );
    const living = new Map<string, TrackedItem[]>();
    for (const row of rows) {
      const name = `${row.step}/${row.start}`;
      const ofChunk = living.get(name) ?? [];
      ofChunk.push(toTrackedItem(row, row.start));
      living.set(name, ofChunk);
    }
    return living;
  }

  /**
   * Opens a drive for these dead letters of one step, which come in item order; none of their
   * chunks is leased. It holds the dead letters of one chunk, and of one page, in memory.
   */
  *putBack(
    tx: RuleTransaction,
    num: number,
    step: number,
    nextItems: NextItems,
    drive: number,
  ): Act<void> {
    let chunk: RedrivenChunkRow | null = null;
    let ofChunk: RedrivenItem[] = [];
    for (let page = yield* nextItems(); page.length > 0; page = yield* nextItems()) {
      for (const item of page) {
        if (chunk === null || item.item >= chunk.finish) {
          if (chunk !== null) yield* this.#putBackChunk(tx, num, step, chunk, ofChunk, drive);
          chunk = yield* this.#findChunkOf(tx, num, step, item.item);
          ofChunk = [];
        }
        ofChunk.push(item);
      }
    }
    if (chunk !== null) yield* this.#putBackChunk(tx, num, step, chunk, ofChunk, drive);
    tx.send(UPDATE_DRIVE, num, drive);
    this.#steps.offerAgain(tx, num, step);
  }

  *#putBackChunk(
    tx: RuleTransaction,
    num: number,
    step: number,
    chunk: RedrivenChunkRow,
    items: readonly RedrivenItem[],
    drive: number,
  ): Act<void> {
    const { start, finish, outcomes, losses } = chunk;
    const rows = yield* tx.all<ItemRow>(SELECT_TRACKED, num, step, start, finish);
    const tracked = rows.map((row): TrackedItem => toTrackedItem(row, start));
    const stored = { items: finish - start, outcomes, tracked, losses };
    const orders = items.map(({ item, dueAt }) => ({ index: item - start, dueAt }));
    const effect = decideRedrive(stored, orders, drive);
    if (chunk.item_ledger === 1) {
      const place = { ...chunk, step, worker: null };
      const link = describeRedriven(place, outcomes, effect.outcomes, drive);
      yield* appendLinks(tx, this.#records, num, [{ place, link }]);
    }
    tx.send(UPDATE_CHUNK, num, step, chunk.chunk, effect.outcomes, Math.floor(effect.dueAt));
    tx.sendEach(
      UPDATE_ITEMS,
      [num, step, drive],
      effect.track.map(({ index }) => start + index),
      effect.track.map((item) => Math.floor(item.dueAt)),
    );
    const { permanent, transient, unexpected } = effect.tally;
    tx.send(UPDATE_STEP, num, step, effect.count, permanent, transient, unexpected);
  }

  *#findChunkOf(
    tx: RuleTransaction,
    num: number,
    step: number,
    item: number,
  ): Act<RedrivenChunkRow> {
    const row = yield* tx.get<RedrivenChunkRow>(FIND_CHUNK, num, step, item);
    invariant(row !== undefined, `item ${item} has a chunk`);
    return row;
  }
}
