/**
 * Lanes whose holder is stuck, in SQL: orphans whose slicing was abandoned, and holders that the
 * lane's policy does not wait for. Lists are read without a lock; before acting, the batch is
 * locked and checked again.
 */
import { nameSlicingTask } from "../../../ports/store/conductor-store.ts";
import type { SweepPolicy } from "../../../ports/store/worker-store.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { BatchRow } from "../rows.ts";
import type { BatchLifecycle } from "../rules/batch-lifecycle.ts";
import { PAUSE_OF_BATCH } from "../rules/columns.ts";
import type { Lanes } from "../rules/lanes.ts";
import type { RecordLog } from "../rules/records.ts";
import type { Serving } from "../rules/serving.ts";
import type { Steps } from "../rules/steps.ts";
import { type Done, NOTHING } from "./sweep-ground.ts";
import { describeStuck, STALE } from "./sweep-rules.ts";

/** No activity since $1, and no process slices it at $2. */
const IS_STALE = `b.state IN ('submitted', 'slicing') AND b.active = 1 AND b.activity_at <= $1
  AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL AND NOT EXISTS (
    SELECT 1 FROM claim c WHERE c.task = '${nameSlicingTask("")}' || b.id AND c.until > $2)`;
const SELECT_STALE = statement(
  `SELECT b.num FROM batch b /*sqlite INDEXED BY batch_unsliced*/ WHERE ${IS_STALE}
   ORDER BY b.num LIMIT $3`,
);
const FIND_STALE = statement(`SELECT b.lane, b.step FROM batch b WHERE ${IS_STALE} AND b.num = $3`);
const RAISE_SLICE_FENCE = statement(
  "UPDATE step SET slice_fence = slice_fence + 1 WHERE batch = $1 AND step = $2",
);
// A stuck holder makes way only in lanes whose policy is not `block`.
const SELECT_HOLDERS = statement(
  `SELECT b.num, b.id, b.lane, b.activity_at, b.pipeline, b.version, ${PAUSE_OF_BATCH} AS pause
   FROM lane l JOIN batch b ON b.lane = l.name AND b.active = 1
   WHERE l.policy <> 'block' AND b.cancel_mode IS NULL ORDER BY b.num`,
);

export interface LaneTendingParts {
  readonly records: RecordLog;
  readonly serving: Serving;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
}

type HolderRow = Pick<
  BatchRow,
  "num" | "id" | "lane" | "activity_at" | "pipeline" | "version" | "pause"
>;

export class LaneTending {
  readonly #parts: LaneTendingParts;

  constructor(parts: LaneTendingParts) {
    this.#parts = parts;
  }

  *listStale(tx: RuleTransaction, policy: SweepPolicy, limit: number): Act<number[]> {
    yield* tx.begin();
    type Row = { readonly num: number };
    const rows = yield* tx.all<Row>(SELECT_STALE, ...computeStale(tx, policy), limit);
    return rows.map(({ num }) => num);
  }

  *parkStale(tx: RuleTransaction, num: number, policy: SweepPolicy): Act<Done> {
    const { lanes, lifecycle } = this.#parts;
    if (!(yield* tx.lockBatch(num))) return NOTHING;
    type Row = { readonly lane: string; readonly step: number };
    const row = yield* tx.get<Row>(FIND_STALE, ...computeStale(tx, policy), num);
    if (row === undefined) return NOTHING;
    yield* tx.lock("lane", row.lane);
    tx.send(RAISE_SLICE_FENCE, num, row.step);
    yield* lanes.park(tx, num, STALE);
    return { count: 1, ended: yield* lifecycle.startNextInLane(tx, row.lane) };
  }

  /** Stuck holders whose lane has another batch that could run. */
  *listStuck(tx: RuleTransaction, policy: SweepPolicy): Act<number[]> {
    const { lanes } = this.#parts;
    const rows = yield* tx.all<HolderRow>(SELECT_HOLDERS);
    const stuck: number[] = [];
    for (const row of rows) {
      if ((yield* this.#describeStuck(tx, row, policy)) === null) continue;
      if (yield* lanes.canMakeWay(tx, row.num, row.lane)) stuck.push(row.num);
    }
    return stuck;
  }

  *#describeStuck(tx: RuleTransaction, row: HolderRow, policy: SweepPolicy): Act<string | null> {
    const { serving, steps } = this.#parts;
    const isIdle = row.pause === null && row.activity_at <= Math.floor(tx.now - policy.orphanMs);
    if (!isIdle) return describeStuck(row.pause, false);
    const [hasLeases, hasWorker] = yield* together(
      steps.hasLeases(tx, row.num),
      serving.has(tx, row),
    );
    return describeStuck(row.pause, !hasLeases && !hasWorker);
  }

  *tendHolder(tx: RuleTransaction, num: number, policy: SweepPolicy): Act<Done> {
    const { lanes, lifecycle, records } = this.#parts;
    if (!(yield* tx.lockBatch(num))) return NOTHING;
    // Without this lock, a batch that is being resumed would still look paused.
    yield* tx.tryLockShared("pauses", "");
    const batch = yield* records.get(tx, num);
    if (batch.active === 0 || batch.cancel_mode !== null) return NOTHING;
    yield* tx.lock("lane", batch.lane);
    const stuck = yield* this.#describeStuck(tx, batch, policy);
    if (stuck === null || !(yield* lanes.tendHolder(tx, batch, stuck))) return NOTHING;
    return { count: 1, ended: yield* lifecycle.startNextInLane(tx, batch.lane) };
  }
}

function computeStale(tx: RuleTransaction, { staleMs }: SweepPolicy): [number, number] {
  return [Math.floor(tx.now - staleMs), Math.floor(tx.now)];
}
