/** A batch's steps: which one runs, and when it has something to lease. */
import type { StepSettings } from "../../../core/batch/step.ts";
import { FIRST_CLOCK } from "../../../core/limits/fair-share.ts";
import { type Act, together } from "../dialect/act.ts";
import { PAUSE_OF_BATCH } from "./columns.ts";
import { statement } from "../dialect/statement.ts";
import { LockTaken, type RuleTransaction } from "../dialect/transaction.ts";

/** How many fresh chunks may be leased: the canary comes first. */
export const FRESH_LIMIT = `/*sqlite min*//*postgres least*/(
  chunks, coalesce(canary_chunks, chunks))`;

/** Chunks that wait for a time, with the condition for it. */
export const WAITING_CHUNKS = `chunk c /*sqlite INDEXED BY chunk_due WHERE c.state = 'waiting'*/
  /*postgres WHERE c.due_at IS NOT NULL*/`;

/** When the updated step has something to lease. */
const LEASABLE_AT = `CASE WHEN next_chunk < ${FRESH_LIMIT} THEN 0 ELSE (
  SELECT min(c.due_at) FROM ${WAITING_CHUNKS} AND c.batch = step.batch AND c.step = step.step) END`;

/**
 * The chunk that contains item $3 of batch $1 and step $2; NULL for none. Chunks are in the order
 * of their items and may differ in size, so this is a binary search: one primary-key lookup at a
 * time (in PostgreSQL, OFFSET 0 keeps it so), and not a scan of a million chunks.
 */
export const CHUNK_OF_ITEM = `
  WITH RECURSIVE look (low, high, found) AS (
    SELECT 0, s.chunks - 1, CAST(NULL AS integer)
    FROM step s WHERE s.batch = $1 AND s.step = $2
    UNION ALL
    SELECT CASE WHEN $3 >= m.finish THEN m.chunk + 1 ELSE l.low END,
      CASE WHEN $3 < m.start THEN m.chunk - 1 ELSE l.high END,
      CASE WHEN $3 >= m.start AND $3 < m.finish THEN m.chunk END
    FROM look l
    /*sqlite JOIN chunk m ON m.batch = $1 AND m.step = $2 AND m.chunk = (l.low + l.high) / 2*/
    /*postgres CROSS JOIN LATERAL (
      SELECT i.chunk, i.start, i.finish FROM chunk i
      WHERE i.batch = $1 AND i.step = $2 AND i.chunk = (l.low + l.high) / 2 OFFSET 0) AS m*/
    WHERE l.found IS NULL AND l.low <= l.high
  ) SELECT found FROM look WHERE found IS NOT NULL`;

const INSERT = statement(
  `INSERT INTO step (batch, step, pipeline, version, tenant, name, chunk_size, max_redrives,
     watched_failures)
   SELECT num, $2, pipeline, version, tenant, $3, $4, $5, $6 FROM batch WHERE num = $1`,
);
const FIND = statement("SELECT sliced, pending FROM step WHERE batch = $1 AND step = $2");
const PLAN = statement(
  // A fence higher than any before: a slicer of an earlier step cannot finish this one.
  `UPDATE step SET base_chunks = chunks, sliced = 0, slice_cursor = NULL,
     slice_fence = (SELECT max(o.slice_fence) + 1 FROM step o WHERE o.batch = step.batch),
     watch_previous = NULL, watch_stalls = 0 WHERE batch = $1 AND step = $2`,
);
const SET_SINCE = statement(
  // The step already has everything that it was planned from before.
  `UPDATE batch SET since_drive = 1 + s.sliced_drive FROM step s
   WHERE s.batch = batch.num AND batch.num = $1 AND s.step = $2`,
);
const SET_CURRENT = statement("UPDATE batch SET step = $2 WHERE num = $1");
const ADJUST = statement(
  `UPDATE step SET running = CASE WHEN step.step = b.step AND b.state = 'running'
       AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL THEN 1 ELSE 0 END,
     leasable_at = ${LEASABLE_AT}
   FROM batch b WHERE b.num = $1 AND step.batch = b.num AND (
     step.step = b.step OR step.running = 1)
   /*postgres RETURNING running*/`,
);
// A lease finds a tenant's steps through its share. On a server an insert would wait for a
// transaction that is changing the same row, so it is skipped where a row is visible.
const SHARE = statement(
  `INSERT INTO share (pipeline, tenant)
   SELECT s.pipeline, s.tenant FROM step s WHERE s.batch = $1 AND s.running = 1
     /*postgres AND NOT EXISTS (
       SELECT 1 FROM share h WHERE h.pipeline = s.pipeline AND h.tenant = s.tenant)*/
   ON CONFLICT DO NOTHING`,
);
const SHARE_CLOCK = statement(
  `INSERT INTO share_clock (pipeline, virtual, item_ms)
   SELECT s.pipeline, $2, $3 FROM step s WHERE s.batch = $1 AND s.running = 1 AND NOT EXISTS (
     SELECT 1 FROM share_clock c WHERE c.pipeline = s.pipeline)
   ON CONFLICT DO NOTHING`,
);
// Until this is committed, the share cannot be removed as one without work.
const KEEP_SHARE = statement(
  `SELECT 1 AS kept FROM step s JOIN share h ON h.pipeline = s.pipeline AND h.tenant = s.tenant
   WHERE s.batch = $1 AND s.running = 1 FOR KEY SHARE OF h NOWAIT`,
);
const HALT = statement("UPDATE step SET running = 0, leasable_at = NULL WHERE batch = $1");
const OFFER = statement(
  `UPDATE step SET leasable_at = ${LEASABLE_AT} WHERE batch = $1 AND step = $2`,
);
const PASS_CANARY = statement(
  "UPDATE step SET canary_chunks = NULL WHERE batch = $1 AND step = $2",
);
const HAS_UNSETTLED = statement(
  `SELECT 1 AS one FROM chunk
   WHERE batch = $1 AND step = $2 AND chunk < $3 AND state <> 'settled' LIMIT 1`,
);
// SQLite reads all leases of the store: as many as workers hold chunks.
const HAS_LEASED = statement(
  `/*sqlite SELECT 1 AS one FROM chunk INDEXED BY chunk_lease
     WHERE state = 'leased' AND batch = $1 LIMIT 1*/
   /*postgres SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM lease WHERE batch = $1)
     OR EXISTS (SELECT 1 FROM chunk WHERE state = 'leased' AND worker > 0 AND batch = $1)*/`,
);
const FIND_CHUNK = statement(`SELECT (${CHUNK_OF_ITEM}) AS chunk`);
const FORGET_WATCH = statement(
  "UPDATE step SET watch_previous = NULL, watch_stalls = 0 WHERE batch = $1",
);

export class Steps {
  add(tx: RuleTransaction, num: number, step: number, settings: StepSettings): void {
    const { name, chunkSize, maxRedrives, budget, canary } = settings;
    const watched = budget !== null || canary !== null;
    tx.send(INSERT, num, step, name, chunkSize, maxRedrives, watched ? 1 : 0);
  }

  /** Undefined when the step has not begun. */
  find(
    tx: RuleTransaction,
    num: number,
    step: number,
  ): Act<{ readonly sliced: number; readonly pending: number } | undefined> {
    return tx.get(FIND, num, step);
  }

  /** Makes this the batch's current step. */
  setCurrent(tx: RuleTransaction, num: number, step: number): void {
    tx.send(SET_CURRENT, num, step);
  }

  /** Prepares the step for planning, after the chunks of earlier drives. */
  beginPlan(tx: RuleTransaction, num: number, step: number): void {
    tx.send(PLAN, num, step);
    tx.send(SET_SINCE, num, step);
  }

  /** Sets whether the current step may be leased from, by its batch's state and pauses. */
  *adjustRunning(tx: RuleTransaction, num: number): Act<void> {
    if (tx.isRemote) {
      yield* this.#adjustOnServer(tx, num);
      return;
    }
    tx.send(ADJUST, num);
    // Where the share is there, so is the clock.
    if ((yield* tx.run(SHARE, num)) === 0) return;
    tx.send(SHARE_CLOCK, num, FIRST_CLOCK.virtual, FIRST_CLOCK.itemMs);
  }

  /** All in one round trip. */
  *#adjustOnServer(tx: RuleTransaction, num: number): Act<void> {
    const [, adjusted, , , kept] = yield* together(
      tx.tryLockShared("pauses", ""),
      tx.all<{ readonly running: number }>(ADJUST, num),
      tx.run(SHARE, num),
      tx.run(SHARE_CLOCK, num, FIRST_CLOCK.virtual, FIRST_CLOCK.itemMs),
      tx.get(KEEP_SHARE, num),
    );
    if (!adjusted.some(({ running }) => running === 1)) return;
    if (kept === undefined) throw new LockTaken(`the share of batch number ${num}`);
    tx.notify();
  }

  /** No chunk of the batch may be leased any more. */
  halt(tx: RuleTransaction, num: number): void {
    tx.send(HALT, num);
  }

  /** Computes again when the step has something to lease. */
  offerAgain(tx: RuleTransaction, num: number, step: number): void {
    tx.send(OFFER, num, step);
    tx.notify();
  }

  passCanary(tx: RuleTransaction, num: number, step: number): void {
    tx.send(PASS_CANARY, num, step);
    this.offerAgain(tx, num, step);
  }

  /** Whether some of the step's first chunks are not settled yet. */
  *hasUnsettled(tx: RuleTransaction, num: number, step: number, chunks: number): Act<boolean> {
    return (yield* tx.get(HAS_UNSETTLED, num, step, chunks)) !== undefined;
  }

  *hasLeases(tx: RuleTransaction, num: number): Act<boolean> {
    return (yield* tx.get(HAS_LEASED, num)) !== undefined;
  }

  /** The chunk that contains an item. */
  *findChunk(tx: RuleTransaction, num: number, step: number, item: number): Act<number | null> {
    const row = yield* tx.get<{ readonly chunk: number | null }>(FIND_CHUNK, num, step, item);
    return row?.chunk ?? null;
  }

  forgetWatch(tx: RuleTransaction, num: number): void {
    tx.send(FORGET_WATCH, num);
  }
}
