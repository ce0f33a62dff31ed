/** What operators do to batches, in SQL. Every method runs inside the caller's transaction. */
import { type Act, describeAct, isEnded } from "../../../core/batch/batch.ts";
import type { LanePolicy } from "../../../core/batch/lane.ts";
import { computeRedriveDueAt } from "../../../core/items/redrive.ts";
import type { ActResult } from "../../../ports/store/conductor-store.ts";
import type {
  CancelRequest,
  PauseRequest,
  PauseScope,
  RedriveRefusal,
  RedriveRequest,
  RedriveResult,
} from "../../../ports/store/operator-store.ts";
import { type RedrivenItem, refuseRedrive, type Survey } from "../../sql/redrive.ts";
import { type BatchRow, countAll, readSteps, toSnapshot } from "../../sql/rows.ts";
import type { Lanes } from "./lanes.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { RecordLog } from "../ledger/records.ts";
import type { Redriving } from "./redriving.ts";
import { type Statement, statement } from "../connection/statement.ts";
import { CHUNK_OF_ITEM, type Steps } from "./steps.ts";
import type { Transaction } from "../connection/transaction.ts";

export interface OperatingParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
  readonly deadLetters: DeadLetters;
  readonly redriving: Redriving;
}

type EachScope = { readonly [Scope in PauseScope["scope"]]: Statement };

const UNDER = {
  batch: "b.id = $1",
  lane: "b.lane = $1 AND b.active = 1",
  pipeline: "b.pipeline = $1 AND b.active = 1",
} as const;

function composeEach(sql: (where: string) => string): EachScope {
  return {
    batch: statement(sql(UNDER.batch)),
    lane: statement(sql(UNDER.lane)),
    pipeline: statement(sql(UNDER.pipeline)),
  };
}

const REQUEST_CANCEL = statement(
  `UPDATE batch SET cancel_mode = $2, cancel_by = $3, cancel_why = $4, cancel_at = $5
   WHERE num = $1`,
);
const PUT_PAUSE = statement(
  `INSERT INTO pause (scope, name, mode, paused_by, why, paused_at)
   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
);
const DELETE_PAUSE = statement("DELETE FROM pause WHERE scope = $1 AND name = $2");
const LOCK_UNDER = composeEach(
  (where) =>
    `SELECT b.num, b.parked_code FROM batch b WHERE b.ended_at IS NULL AND ${where}
     ORDER BY b.num FOR NO KEY UPDATE`,
);
const SELECT_FREE_LANES = composeEach(
  (where) =>
    `SELECT b.lane FROM batch b WHERE b.ended_at IS NULL AND b.active = 0
       AND ${where.replace(" AND b.active = 1", "")} GROUP BY b.lane ORDER BY min(b.num)`,
);
const TAKE_UP = statement(
  `UPDATE batch SET parked_code = NULL, parked_message = NULL, activity_at = $2 WHERE num = $1`,
);
const FIND_CHUNK = statement(
  `SELECT finish, state FROM chunk
   WHERE batch = $1 AND step = $2 AND chunk = (${CHUNK_OF_ITEM})`,
);
const REOPEN = statement(
  `UPDATE batch SET step = $2, place = $3, ended_at = NULL,
     reason_code = NULL, reason_message = NULL, cancel_mode = NULL, cancel_by = NULL,
     cancel_why = NULL, cancel_at = NULL, deadline_at = NULL, activity_at = $4,
     unsent_after = NULL
   WHERE num = $1 RETURNING drive`,
);
const SEAL = statement("UPDATE batch SET sealed = 1 WHERE num = $1");
const DROP_ABANDONED = statement("DELETE FROM abandoned WHERE batch = $1");

export class OperatorActs {
  readonly #parts: OperatingParts;

  constructor(parts: OperatingParts) {
    this.#parts = parts;
  }

  async cancel(
    tx: Transaction,
    batch: BatchRow,
    { mode, by, why }: CancelRequest,
  ): Promise<ActResult> {
    const { records, steps, lifecycle } = this.#parts;
    const { num } = batch;
    if (isEnded(batch.state)) return { kind: "moved_on", batch: toSnapshot(batch) };
    // `now` overrides `drain`; nothing else changes a cancel that is under way.
    const overtakes = batch.cancel_mode === "drain" && mode === "now";
    if (batch.cancel_mode === null || overtakes) {
      tx.send(REQUEST_CANCEL, num, mode, by, why, tx.wallMs);
      await steps.adjustRunning(tx, num);
      await records.record(tx, num, {
        type: "batch.cancel_requested",
        data: { mode, ...describeAct({ by, why }) },
      });
    }
    if (!(await steps.hasLeases(tx, num))) {
      await lifecycle.endEarly(tx, await records.get(tx, num), "cancel", null);
    }
    return { kind: "done", batch: toSnapshot(await records.get(tx, num)) };
  }

  async pause(tx: Transaction, request: PauseRequest): Promise<boolean> {
    const { records, steps } = this.#parts;
    const { scope, name, mode, by, why } = request;
    const under = await this.#lockUnder(tx, request);
    if (scope === "batch" && under.length === 0) return false;
    if ((await tx.run(PUT_PAUSE, scope, name, mode, by, why, tx.wallMs)) === 0) return false;
    for (const { num } of under) {
      await steps.adjustRunning(tx, num);
      await records.record(tx, num, {
        type: "batch.paused",
        data: { scope, mode, ...describeAct(request) },
      });
    }
    tx.notify();
    return true;
  }

  async resume(tx: Transaction, request: PauseScope, act: Act): Promise<boolean> {
    const { records, steps, lifecycle } = this.#parts;
    const { scope, name } = request;
    // The batches first: a transaction that ends one of them, and holds its lock, deletes its
    // pause.
    const under = await this.#lockUnder(tx, request);
    const paused = (await tx.run(DELETE_PAUSE, scope, name)) > 0;
    const parked = scope === "batch" && under.some(({ parked_code: code }) => code !== null);
    if (!paused && !parked) return false;
    const rows = await tx.all<{ readonly lane: string }>(SELECT_FREE_LANES[scope], name);
    const lanes = rows.map(({ lane }) => lane);
    await tx.lockAll("lane", lanes);
    for (const { num } of under) {
      tx.send(TAKE_UP, num, Math.floor(tx.now));
      await steps.adjustRunning(tx, num);
      await steps.forgetWatch(tx, num);
      await records.record(tx, num, {
        type: "batch.resumed",
        data: { scope, ...describeAct(act) },
      });
    }
    // Lanes without a batch that can run may have one now.
    for (const lane of lanes) await lifecycle.startNextInLane(tx, lane);
    tx.notify();
    return true;
  }

  /**
   * The batches that a pause of this scope stops, one for each lane. No other can start until the
   * end, because every start checks the pauses.
   */
  async #lockUnder(
    tx: Transaction,
    { scope, name }: PauseScope,
  ): Promise<Pick<BatchRow, "num" | "parked_code">[]> {
    const [, rows] = await Promise.all([
      tx.lock("pauses", ""),
      tx.all<Pick<BatchRow, "num" | "parked_code">>(LOCK_UNDER[scope], name),
    ]);
    return rows;
  }

  async setLanePolicy(tx: Transaction, lane: string, policy: LanePolicy): Promise<void> {
    await this.#parts.lanes.setPolicy(tx, lane, policy);
    await this.#parts.lifecycle.startNextInLane(tx, lane);
  }

  async redrive(tx: Transaction, batch: BatchRow, request: RedriveRequest): Promise<RedriveResult> {
    const { records, redriving } = this.#parts;
    const { num } = batch;
    const refused = (why: RedriveRefusal): RedriveResult => ({
      kind: "refused",
      batch: toSnapshot(batch),
      why,
    });
    const whyNot = refuseRedrive(batch, request);
    if (whyNot !== null) return refused(whyNot);
    const { matching, busy, redriven, firstStep, lastStep } = await this.#countRedrivable(
      tx,
      batch,
      request,
    );
    const ended = isEnded(batch.state);
    const revived = ended ? countAll(batch).cancelled : 0;
    if (matching + revived === 0) return refused("no_dead_letters");
    const elsewhere = [firstStep, lastStep].some((step) => step !== null && step !== batch.step);
    if (!ended && elsewhere) return refused("step_is_over");
    const done = {
      kind: "done" as const,
      redriven,
      revived,
      busy,
      left: matching - busy - redriven,
    };
    if (request.dryRun || redriven + revived === 0) return { ...done, batch: toSnapshot(batch) };
    const drive = batch.drive + 1;
    if (ended) await redriving.revive(tx, num, Math.floor(tx.now));
    await this.#putBack(tx, batch, request, drive);
    await records.record(tx, num, {
      type: "dead_letters.redriven",
      data: { drive, items: redriven, revived, ...describeAct(request) },
    });
    if (ended) await this.#reopenAt(tx, batch, Math.min(batch.step, firstStep ?? batch.step));
    return { ...done, batch: toSnapshot(await records.get(tx, num)) };
  }

  async #countRedrivable(
    tx: Transaction,
    batch: BatchRow,
    { filter, ceiling }: RedriveRequest,
  ): Promise<Survey> {
    let matching = 0;
    let busy = 0;
    let redriven = 0;
    let first: number | null = null;
    let last: number | null = null;
    for (const step of readSteps(batch).keys()) {
      for await (const letter of this.#walk(tx, batch.num, step, filter)) {
        matching++;
        if (letter.busy) busy++;
        else if (redriven < ceiling) {
          redriven++;
          first ??= step;
          last = step;
        }
      }
    }
    return { matching, busy, redriven, firstStep: first, lastStep: last };
  }

  /** Dead letters that are not discarded; those in a running chunk are busy. */
  async *#walk(
    tx: Transaction,
    num: number,
    step: number,
    filter: RedriveRequest["filter"],
  ): AsyncGenerator<{ readonly item: number; readonly busy: boolean }, void, void> {
    let chunk = { finish: -1, state: "" };
    for await (const { item, discarded } of this.#parts.deadLetters.walk(tx, num, step, filter)) {
      if (discarded !== null) continue;
      if (item >= chunk.finish) {
        chunk = (await tx.get<typeof chunk>(FIND_CHUNK, num, step, item)) as typeof chunk;
      }
      yield { item, busy: chunk.state === "leased" };
    }
  }

  async #putBack(
    tx: Transaction,
    batch: BatchRow,
    request: RedriveRequest,
    drive: number,
  ): Promise<void> {
    const { num } = batch;
    const pace = { now: Math.floor(tx.now), nth: 0 };
    for (const step of readSteps(batch).keys()) {
      const items = this.#order(tx, num, step, request, pace);
      await this.#parts.redriving.putBack(tx, num, step, items, drive);
    }
  }

  /**
   * The dead letters of a step to redrive, each with its due time; `pace` counts over all steps.
   */
  async *#order(
    tx: Transaction,
    num: number,
    step: number,
    { filter, ceiling, perSecond }: RedriveRequest,
    pace: { readonly now: number; nth: number },
  ): AsyncGenerator<RedrivenItem, void, void> {
    for await (const { item, busy } of this.#walk(tx, num, step, filter)) {
      if (busy) continue;
      if (pace.nth >= ceiling) return;
      yield { item, dueAt: computeRedriveDueAt(pace.now, pace.nth++, perSecond) };
    }
  }

  /** To the head of its lane's queue. */
  async #reopenAt(tx: Transaction, { num, lane, sealed }: BatchRow, step: number): Promise<void> {
    const { records, lanes, steps, lifecycle } = this.#parts;
    await tx.lock("lane", lane);
    tx.send(DROP_ABANDONED, num);
    await records.move(tx, num, "reopen");
    const place = await lanes.computeFront(tx, num, lane);
    const row = (await tx.get(REOPEN, num, step, place, Math.floor(tx.now))) as { drive: number };
    await steps.forgetWatch(tx, num);
    await records.record(tx, num, { type: "batch.reopened", data: { step, drive: row.drive } });
    if (sealed === 0) {
      // Its seal deadline has passed: it runs the items it has, or it would expire again at once.
      tx.send(SEAL, num);
      const { planned: items, chunks } = await records.get(tx, num);
      await records.record(tx, num, { type: "batch.sealed", data: { items, chunks } });
    }
    await lifecycle.startNextInLane(tx, lane);
  }
}
