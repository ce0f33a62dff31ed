/** What lanes, batches and chunks wait for, in SQL. */
import { runAct } from "../../sql/dialect/act.ts";
import { findFullCap } from "../../sql/rules/cap-use.ts";
import type { Serving } from "../../sql/rules/serving.ts";
import { DEFAULT_LANE_POLICY, type LanePolicy } from "../../../core/batch/lane.ts";
import type { LaneView, WaitingFacts } from "../../../ports/store/query-store.ts";
import { type BatchRow, countAll, readPause } from "../../sql/rows.ts";
import {
  computeNextDue,
  type DueRow,
  readRest,
  type RestRow,
  toChunkFacts,
  type WaitingChunkRow,
} from "../../sql/waiting-rows.ts";
import { composeRunOf } from "../chunks/lease-runs.ts";
import { statement } from "../connection/statement.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_LANES = statement(
  `SELECT b.lane, max(CASE WHEN b.active = 1 THEN b.id END) AS holder,
     count(*) FILTER (WHERE b.active = 0 AND b.parked_code IS NULL) AS waiting,
     count(*) FILTER (WHERE b.parked_code IS NOT NULL) AS parked,
     (SELECT policy FROM lane WHERE name = b.lane) AS policy,
     (SELECT json_build_array(scope, name, mode, paused_by, why) FROM pause
      WHERE scope = 'lane' AND name = b.lane) AS pause
   FROM batch b WHERE b.ended_at IS NULL GROUP BY b.lane ORDER BY b.lane`,
);
const SELECT_HOLDER = statement("SELECT id FROM batch WHERE lane = $1 AND active = 1");
const COUNT_AHEAD = statement(
  `SELECT count(*) AS n FROM batch
   WHERE lane = $1 AND active = 0 AND ended_at IS NULL AND parked_code IS NULL AND place < $2`,
);
const COUNT_LEASED = statement(
  `SELECT (SELECT count(*) FROM chunk
      WHERE state = 'leased' AND worker > 0 AND batch = $1 AND step = $2)
     + (SELECT coalesce(sum(left_chunks), 0) FROM lease WHERE batch = $1 AND step = $2) AS n`,
);
const SELECT_DUE = statement(
  `SELECT (next_chunk < ${FRESH_LIMIT})::int AS fresh, (
     SELECT min(due_at) FROM chunk
     WHERE due_at IS NOT NULL AND batch = s.batch AND step = s.step) AS due
   FROM step s WHERE s.batch = $1 AND s.step = $2`,
);
const SELECT_NEXT_REST = statement(
  `SELECT rest_hold_up, rest_key FROM chunk
   WHERE due_at IS NOT NULL AND batch = $1 AND step = $2 ORDER BY due_at, chunk LIMIT 1`,
);
const SELECT_CHUNKS = statement(
  `SELECT c.chunk, CASE WHEN r.worker IS NULL THEN c.state ELSE 'leased' END AS state,
     coalesce(r.worker, c.worker) AS worker, c.due_at, c.rest_hold_up, c.rest_key
   FROM step s JOIN chunk c ON c.batch = s.batch AND c.step = s.step
   LEFT JOIN LATERAL (${composeRunOf("c.state = 'planned' AND c.chunk < s.next_chunk")}) AS r ON true
   WHERE s.batch = $1 AND s.step = $2 AND c.state <> 'settled'
   ORDER BY CASE WHEN r.worker IS NOT NULL THEN 0 WHEN c.state = 'leased' THEN 0
     WHEN c.state = 'waiting' THEN 1 WHEN c.state = 'planned' THEN 2 ELSE 3 END,
     coalesce(c.due_at, 0), c.chunk LIMIT $3`,
);

export interface WaitingParts {
  readonly serving: Serving;
}

export class WaitReasons {
  readonly #serving: Serving;

  constructor({ serving }: WaitingParts) {
    this.#serving = serving;
  }

  async listLanes(tx: Transaction): Promise<LaneView[]> {
    type Row = Pick<LaneView, "lane" | "holder" | "waiting" | "parked"> & {
      readonly policy: LanePolicy | null;
      readonly pause: string | null;
    };
    return (await tx.all<Row>(SELECT_LANES)).map(({ lane, policy, pause, ...row }) => ({
      lane,
      policy: policy ?? DEFAULT_LANE_POLICY,
      pause: readPause(pause),
      holder: row.holder,
      waiting: row.waiting,
      parked: row.parked,
    }));
  }

  async explain(tx: Transaction, batch: BatchRow, chunksMax: number): Promise<WaitingFacts> {
    const { num, step, lane, pipeline, version, active } = batch;
    const now = Math.floor(tx.now);
    const waits = active === 0 && batch.ended_at === null && batch.parked_code === null;
    type Count = { readonly n: number };
    const [holder, behind, hasWorker, leased, due, nextRest, cap, chunks] = await Promise.all([
      active === 1 ? undefined : tx.get<{ readonly id: string }>(SELECT_HOLDER, lane),
      waits ? tx.get<Count>(COUNT_AHEAD, lane, batch.place) : undefined,
      runAct(this.#serving.has(tx.rules, batch)),
      tx.get<Count>(COUNT_LEASED, num, step),
      tx.get<DueRow>(SELECT_DUE, num, step) as Promise<DueRow>,
      tx.get<RestRow>(SELECT_NEXT_REST, num, step),
      runAct(findFullCap(tx.rules, num)),
      tx.all<WaitingChunkRow>(SELECT_CHUNKS, num, step, chunksMax),
    ]);
    return {
      batch: {
        state: batch.state,
        pipeline,
        version,
        lane,
        active: active === 1,
        laneHolder: holder?.id ?? null,
        ahead: active === 1 ? 0 : (behind?.n ?? 0) + (holder === undefined ? 0 : 1),
        parked: batch.parked_code === null ? null : batch.parked_message,
        pause: readPause(batch.pause),
        cancelMode: batch.cancel_mode,
        hasWorker,
        sealed: batch.sealed === 1,
        pending: countAll(batch).pending,
        leased: leased?.n ?? 0,
        inCanary: batch.canary_chunks !== null,
        nextDueInMs: computeNextDue(due, now),
        nextRest: readRest(nextRest),
        cap,
      },
      chunks: chunks.map((row) => toChunkFacts(row, batch, now)),
    };
  }
}
