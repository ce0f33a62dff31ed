/** What lanes, batches and chunks wait for, in SQL. */
import { DEFAULT_LANE_POLICY, type LanePolicy } from "../../../core/batch/lane.ts";
import type { ChunkState } from "../../../core/batch/chunk.ts";
import type { ChunkFacts, RestFacts } from "../../../core/batch/why.ts";
import type { WaitReason } from "../../../core/limits/bucket.ts";
import type { LaneView, WaitingFacts } from "../../../ports/store/query-store.ts";
import { type Act, answered, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { composeRunOf } from "../lease-run-of.ts";
import { findFullCap } from "../rules/cap-use.ts";
import { type BatchRow, countAll, readPause } from "../rows.ts";
import { PAUSE } from "../rules/columns.ts";
import type { Serving } from "../rules/serving.ts";
import { FRESH_LIMIT, WAITING_CHUNKS } from "../rules/steps.ts";

const SELECT_LANES = statement(
  `SELECT b.lane, max(CASE WHEN b.active = 1 THEN b.id END) AS holder,
     count(*) FILTER (WHERE b.active = 0 AND b.parked_code IS NULL) AS waiting,
     count(*) FILTER (WHERE b.parked_code IS NOT NULL) AS parked,
     (SELECT policy FROM lane WHERE name = b.lane) AS policy,
     (${PAUSE} WHERE scope = 'lane' AND name = b.lane) AS pause
   FROM batch b /*sqlite INDEXED BY batch_unfinished_in_lane*/
   WHERE b.ended_at IS NULL GROUP BY b.lane ORDER BY b.lane`,
);
const FIND_HOLDER = statement("SELECT id FROM batch WHERE lane = $1 AND active = 1");
const COUNT_AHEAD = statement(
  `SELECT count(*) AS n FROM batch /*sqlite INDEXED BY batch_waits_in_lane*/
   WHERE lane = $1 AND active = 0 AND ended_at IS NULL AND parked_code IS NULL AND place < $2`,
);
const COUNT_LEASED = statement(
  `SELECT (SELECT count(*) FROM chunk /*sqlite INDEXED BY chunk_lease*/
      WHERE state = 'leased' /*postgres AND worker > 0*/ AND batch = $1 AND step = $2)
     /*postgres + (SELECT coalesce(sum(left_chunks), 0) FROM lease
      WHERE batch = $1 AND step = $2)*/ AS n`,
);
const FIND_DUE = statement(
  `SELECT CAST(next_chunk < ${FRESH_LIMIT} AS int) AS fresh, (
     SELECT min(c.due_at) FROM ${WAITING_CHUNKS} AND c.batch = s.batch AND c.step = s.step) AS due
   FROM step s WHERE s.batch = $1 AND s.step = $2`,
);
const FIND_NEXT_REST = statement(
  `SELECT c.rest_hold_up, c.rest_key FROM ${WAITING_CHUNKS} AND c.batch = $1 AND c.step = $2
   ORDER BY c.due_at, c.chunk LIMIT 1`,
);
const SELECT_CHUNKS = statement(
  `SELECT c.chunk, c.due_at, c.rest_hold_up, c.rest_key, /*sqlite c.state, c.worker*/
     /*postgres CASE WHEN r.worker IS NULL THEN c.state ELSE 'leased' END AS state,
       coalesce(r.worker, c.worker) AS worker*/
   FROM step s JOIN chunk c ON c.batch = s.batch AND c.step = s.step
   /*postgres LEFT JOIN LATERAL (
     ${composeRunOf("c.state = 'planned' AND c.chunk < s.next_chunk")}) AS r ON true*/
   WHERE s.batch = $1 AND s.step = $2 AND c.state <> 'settled'
   ORDER BY CASE /*postgres WHEN r.worker IS NOT NULL THEN 0*/ WHEN c.state = 'leased' THEN 0
     WHEN c.state = 'waiting' THEN 1 WHEN c.state = 'planned' THEN 2 ELSE 3 END,
     CASE WHEN c.state = 'waiting' THEN c.due_at ELSE 0 END, c.chunk LIMIT $3`,
);

interface RestRow {
  readonly rest_hold_up: WaitReason | null;
  readonly rest_key: string | null;
}

interface WaitingChunkRow extends RestRow {
  readonly chunk: number;
  readonly state: ChunkState;
  readonly worker: number;
  /** Meaningless for a chunk that does not wait. */
  readonly due_at: number | null;
}

/** What the step of a batch has to lease. */
interface DueRow {
  /** Chunks that were never leased. */
  readonly fresh: number;
  readonly due: number | null;
}

export function* listLanes(tx: RuleTransaction): Act<LaneView[]> {
  type Row = Pick<LaneView, "lane" | "holder" | "waiting" | "parked"> & {
    readonly policy: LanePolicy | null;
    readonly pause: string | null;
  };
  return (yield* tx.all<Row>(SELECT_LANES)).map(({ lane, policy, pause, ...row }) => ({
    lane,
    policy: policy ?? DEFAULT_LANE_POLICY,
    pause: readPause(pause),
    holder: row.holder,
    waiting: row.waiting,
    parked: row.parked,
  }));
}

export class WaitReasons {
  readonly #serving: Serving;

  constructor(serving: Serving) {
    this.#serving = serving;
  }

  *explain(tx: RuleTransaction, batch: BatchRow, chunksMax: number): Act<WaitingFacts> {
    const { num, step, lane, pipeline, version, active } = batch;
    const now = Math.floor(tx.now);
    const waits = active === 0 && batch.ended_at === null && batch.parked_code === null;
    type Count = { readonly n: number };
    const [holder, behind, hasWorker, leased, due, nextRest, cap, chunks] = yield* together(
      active === 1 ? answered(undefined) : tx.get<{ readonly id: string }>(FIND_HOLDER, lane),
      waits ? tx.get<Count>(COUNT_AHEAD, lane, batch.place) : answered(undefined),
      this.#serving.has(tx, batch),
      tx.get<Count>(COUNT_LEASED, num, step),
      tx.get<DueRow>(FIND_DUE, num, step),
      tx.get<RestRow>(FIND_NEXT_REST, num, step),
      findFullCap(tx, num),
      tx.all<WaitingChunkRow>(SELECT_CHUNKS, num, step, chunksMax),
    );
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
        nextDueInMs: computeNextDue(due as DueRow, now),
        nextRest: readRest(nextRest),
        cap,
      },
      chunks: chunks.map((row) => toChunkFacts(row, batch, now)),
    };
  }
}

function readRest(row: RestRow | undefined): RestFacts | null {
  if (row === undefined || row.rest_hold_up === null) return null;
  return { waitReason: row.rest_hold_up, key: row.rest_key };
}

function computeNextDue({ fresh, due }: DueRow, now: number): number | null {
  if (fresh === 1) return 0;
  return due === null ? null : Math.max(0, due - now);
}

function toChunkFacts(row: WaitingChunkRow, batch: BatchRow, now: number): ChunkFacts {
  const { chunk, state, worker } = row;
  const canary = batch.canary_chunks ?? Number.POSITIVE_INFINITY;
  return {
    chunk,
    state,
    worker: state === "leased" ? `${worker}` : null,
    dueInMs: state === "waiting" ? Math.max(0, (row.due_at ?? 0) - now) : 0,
    rest: state === "waiting" ? readRest(row) : null,
    behindCanary: state === "planned" && chunk >= canary,
  };
}
