/**
 * Lanes whose holder is stuck, in SQL: orphans whose slicing was abandoned, and holders that the
 * lane's policy does not wait for. Lists are read without a lock; before acting, the caller locks
 * the batch and checks again.
 */
import { runAct } from "../../sql/dialect/act.ts";
import { nameSlicingTask } from "../../../ports/store/conductor-store.ts";
import type { SweepPolicy } from "../../../ports/store/worker-store.ts";
import type { BatchRow } from "../../sql/rows.ts";
import { describeStuck, STALE } from "../../sql/sweep-rules.ts";
import { lockBatch } from "../connection/batch-lock.ts";
import type { Lanes } from "../../sql/rules/lanes.ts";
import type { BatchLifecycle } from "../../sql/rules/batch-lifecycle.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import { statement } from "../connection/statement.ts";
import type { Serving } from "../../sql/rules/serving.ts";
import type { Steps } from "../../sql/rules/steps.ts";
import type { Transaction } from "../connection/transaction.ts";

/** No activity since $1, and no process slices it at $2. */
const STALE_BATCHES = `FROM batch b
  WHERE b.state IN ('submitted', 'slicing') AND b.active = 1 AND b.activity_at <= $1
    AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL AND NOT EXISTS (
      SELECT 1 FROM claim c WHERE c.task = '${nameSlicingTask("")}' || b.id AND c.until > $2)`;
const SELECT_STALE = statement(`SELECT b.num ${STALE_BATCHES} ORDER BY b.num LIMIT $3`);
const FIND_STALE = statement(`SELECT b.lane, b.step ${STALE_BATCHES} AND b.num = $3`);
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

/** What one transaction of a sweep did. */
export interface Done {
  /** Leases that were lost, or batches that were handled. */
  readonly count: number;
  readonly ended: readonly string[];
}

export const NOTHING: Done = { count: 0, ended: [] };

type HolderRow = Pick<
  BatchRow,
  "num" | "id" | "lane" | "activity_at" | "pipeline" | "version" | "pause"
>;

export class LaneTending {
  readonly #parts: LaneTendingParts;

  constructor(parts: LaneTendingParts) {
    this.#parts = parts;
  }

  async listStale(tx: Transaction, policy: SweepPolicy, limit: number): Promise<number[]> {
    await tx.begin();
    type Row = { readonly num: number };
    const rows = await tx.all<Row>(SELECT_STALE, ...computeStale(tx, policy), limit);
    return rows.map(({ num }) => num);
  }

  async parkStale(tx: Transaction, num: number, policy: SweepPolicy): Promise<Done> {
    const { lanes, lifecycle } = this.#parts;
    if (!(await lockBatch(tx, num))) return NOTHING;
    type Row = { readonly lane: string; readonly step: number };
    const row = await tx.get<Row>(FIND_STALE, ...computeStale(tx, policy), num);
    if (row === undefined) return NOTHING;
    await tx.lock("lane", row.lane);
    tx.send(RAISE_SLICE_FENCE, num, row.step);
    await runAct(lanes.park(tx.rules, num, STALE));
    return { count: 1, ended: await runAct(lifecycle.startNextInLane(tx.rules, row.lane)) };
  }

  /** Stuck holders whose lane has another batch that could run. */
  async listStuck(tx: Transaction, policy: SweepPolicy): Promise<number[]> {
    const { lanes } = this.#parts;
    const rows = await tx.all<HolderRow>(SELECT_HOLDERS);
    const stuck: number[] = [];
    for (const row of rows) {
      if ((await this.#describeStuck(tx, row, policy)) === null) continue;
      if (await runAct(lanes.canMakeWay(tx.rules, row.num, row.lane))) stuck.push(row.num);
    }
    return stuck;
  }

  async #describeStuck(
    tx: Transaction,
    row: HolderRow,
    policy: SweepPolicy,
  ): Promise<string | null> {
    const { serving, steps } = this.#parts;
    const isIdle = row.pause === null && row.activity_at <= Math.floor(tx.now - policy.orphanMs);
    if (!isIdle) return describeStuck(row.pause, false);
    const [hasLeases, hasWorker] = await Promise.all([
      runAct(steps.hasLeases(tx.rules, row.num)),
      runAct(serving.has(tx.rules, row)),
    ]);
    return describeStuck(row.pause, !hasLeases && !hasWorker);
  }

  async tendHolder(tx: Transaction, num: number, policy: SweepPolicy): Promise<Done> {
    const { lanes, lifecycle, records } = this.#parts;
    if (!(await lockBatch(tx, num))) return NOTHING;
    // Without this lock, a batch that is being resumed would still look paused.
    await tx.tryLockShared("pauses", "");
    const batch = await runAct(records.get(tx.rules, num));
    if (batch.active === 0 || batch.cancel_mode !== null) return NOTHING;
    await tx.lock("lane", batch.lane);
    const stuck = await this.#describeStuck(tx, batch, policy);
    if (stuck === null || !(await runAct(lanes.tendHolder(tx.rules, batch, stuck)))) return NOTHING;
    return { count: 1, ended: await runAct(lifecycle.startNextInLane(tx.rules, batch.lane)) };
  }
}

function computeStale(tx: Transaction, { staleMs }: SweepPolicy): [number, number] {
  return [Math.floor(tx.now - staleMs), Math.floor(tx.now)];
}
