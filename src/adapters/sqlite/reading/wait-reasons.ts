/** What lanes, batches and chunks wait for, in SQL. */
import type { StatementSync } from "node:sqlite";
import type { ChunkFacts } from "../../../core/batch/why.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { LaneView, WaitingFacts } from "../../../ports/store/query-store.ts";
import type { Connection } from "../connection/connection.ts";
import { runNow } from "../../sql/dialect/act.ts";
import type { Lanes } from "../../sql/rules/lanes.ts";
import { findFullCap } from "../../sql/rules/cap-use.ts";
import type { Serving } from "../../sql/rules/serving.ts";
import { type BatchRow, countAll, readPause } from "../../sql/rows.ts";
import {
  computeNextDue,
  type DueRow,
  readRest,
  type RestRow,
  toChunkFacts,
  type WaitingChunkRow,
} from "../../sql/waiting-rows.ts";

export interface WaitingParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly lanes: Lanes;
  readonly serving: Serving;
}

export class WaitReasons {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #lanes: Lanes;
  readonly #serving: Serving;
  readonly #selectLanes: StatementSync;
  readonly #selectHolder: StatementSync;
  readonly #countAhead: StatementSync;
  readonly #countLeased: StatementSync;
  readonly #selectDue: StatementSync;
  readonly #selectNextRest: StatementSync;
  readonly #selectChunks: StatementSync;

  constructor({ connection, clock, lanes, serving }: WaitingParts) {
    this.#connection = connection;
    this.#clock = clock;
    this.#lanes = lanes;
    this.#serving = serving;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectLanes = prepare(
      `SELECT b.lane, max(iif(b.active = 1, b.id, NULL)) AS holder,
         sum(b.active = 0 AND b.parked_code IS NULL) AS waiting,
         sum(b.parked_code IS NOT NULL) AS parked,
         (SELECT json_array(scope, name, mode, paused_by, why) FROM pause
          WHERE scope = 'lane' AND name = b.lane) AS pause
       FROM batch b INDEXED BY batch_unfinished_in_lane WHERE b.ended_at IS NULL
       GROUP BY b.lane ORDER BY b.lane`,
    );
    this.#selectHolder = prepare("SELECT id FROM batch WHERE lane = ? AND active = 1");
    this.#countAhead = prepare(
      `SELECT count(*) AS n FROM batch INDEXED BY batch_waits_in_lane
       WHERE lane = ? AND active = 0 AND ended_at IS NULL AND parked_code IS NULL AND place < ?`,
    );
    this.#countLeased = prepare(
      `SELECT count(*) AS n FROM chunk INDEXED BY chunk_lease
       WHERE state = 'leased' AND batch = ? AND step = ?`,
    );
    this.#selectDue = prepare(
      `SELECT next_chunk < min(chunks, coalesce(canary_chunks, chunks)) AS fresh, (
         SELECT min(due_at) FROM chunk INDEXED BY chunk_due
         WHERE state = 'waiting' AND batch = s.batch AND step = s.step) AS due
       FROM step s WHERE s.batch = ? AND s.step = ?`,
    );
    this.#selectNextRest = prepare(
      `SELECT rest_hold_up, rest_key FROM chunk INDEXED BY chunk_due
       WHERE state = 'waiting' AND batch = ? AND step = ? ORDER BY due_at, chunk LIMIT 1`,
    );
    this.#selectChunks = prepare(
      `SELECT chunk, state, worker, due_at, rest_hold_up, rest_key FROM chunk
       WHERE batch = ? AND step = ? AND state <> 'settled'
       ORDER BY CASE state WHEN 'leased' THEN 0 WHEN 'waiting' THEN 1 WHEN 'planned' THEN 2
         ELSE 3 END, iif(state = 'waiting', due_at, 0), chunk LIMIT ?`,
    );
  }

  listLanes(): LaneView[] {
    type Row = { lane: string; holder: string | null; waiting: number; parked: number };
    type PausedRow = Row & { pause: string | null };
    return (this.#selectLanes.all() as unknown as PausedRow[]).map(({ lane, pause, ...row }) => ({
      lane,
      policy: runNow(this.#lanes.getPolicy(this.#connection.transaction.rules, lane)),
      pause: readPause(pause),
      holder: row.holder,
      waiting: row.waiting,
      parked: row.parked,
    }));
  }

  explain(batch: BatchRow, chunksMax: number): WaitingFacts {
    const { num, step, lane, pipeline, version, active } = batch;
    const now = Math.floor(this.#clock.monotonicMs());
    const holder =
      active === 1 ? undefined : (this.#selectHolder.get(lane) as { id: string } | undefined);
    const waits = active === 0 && batch.ended_at === null && batch.parked_code === null;
    const behind = waits ? count(this.#countAhead.get(lane, batch.place)) : 0;
    return {
      batch: {
        state: batch.state,
        pipeline,
        version,
        lane,
        active: active === 1,
        laneHolder: holder?.id ?? null,
        ahead: active === 1 ? 0 : behind + (holder === undefined ? 0 : 1),
        parked: batch.parked_code === null ? null : batch.parked_message,
        pause: readPause(batch.pause),
        cancelMode: batch.cancel_mode,
        hasWorker: runNow(this.#serving.has(this.#connection.transaction.rules, batch)),
        sealed: batch.sealed === 1,
        pending: countAll(batch).pending,
        leased: count(this.#countLeased.get(num, step)),
        inCanary: batch.canary_chunks !== null,
        nextDueInMs: computeNextDue(this.#selectDue.get(num, step) as unknown as DueRow, now),
        nextRest: readRest(this.#selectNextRest.get(num, step) as RestRow | undefined),
        cap: runNow(findFullCap(this.#connection.transaction.rules, num)),
      },
      chunks: this.#listChunks(batch, now, chunksMax),
    };
  }

  #listChunks(batch: BatchRow, now: number, chunksMax: number): ChunkFacts[] {
    const rows = this.#selectChunks.all(batch.num, batch.step, chunksMax);
    return (rows as unknown as WaitingChunkRow[]).map((row) => toChunkFacts(row, batch, now));
  }
}

function count(row: unknown): number {
  return (row as { n: number }).n;
}
