/** What operators do to batches. */
import { type Act as OperatorAct, describeAct, isEnded } from "../../../core/batch/batch.ts";
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
import { type RedrivenItem, refuseRedrive, type Survey } from "../redrive.ts";
import { type BatchRow, countAll, readSteps, toSnapshot } from "../rows.ts";
import { type Act, together } from "../dialect/act.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { Lanes } from "./lanes.ts";
import type { RecordLog } from "./records.ts";
import type { NextItems, Redriving } from "./redriving.ts";
import { type SharedStatement, statement } from "../dialect/statement.ts";
import { CHUNK_OF_ITEM, type Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

export interface OperatingParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
  readonly deadLetters: DeadLetters;
  readonly redriving: Redriving;
}

interface Candidate {
  readonly item: number;
  readonly busy: boolean;
}

type EachScope = { readonly [Scope in PauseScope["scope"]]: SharedStatement };

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
     ORDER BY b.num /*postgres FOR NO KEY UPDATE*/`,
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

  *cancel(tx: RuleTransaction, batch: BatchRow, { mode, by, why }: CancelRequest): Act<ActResult> {
    const { records, steps, lifecycle } = this.#parts;
    const { num } = batch;
    if (isEnded(batch.state)) return { kind: "moved_on", batch: toSnapshot(batch) };
    // `now` overrides `drain`; nothing else changes a cancel that is under way.
    const overtakes = batch.cancel_mode === "drain" && mode === "now";
    if (batch.cancel_mode === null || overtakes) {
      tx.send(REQUEST_CANCEL, num, mode, by, why, tx.wallMs);
      yield* steps.adjustRunning(tx, num);
      yield* records.record(tx, num, {
        type: "batch.cancel_requested",
        data: { mode, ...describeAct({ by, why }) },
      });
    }
    if (!(yield* steps.hasLeases(tx, num))) {
      yield* lifecycle.endEarly(tx, yield* records.get(tx, num), "cancel", null);
    }
    return { kind: "done", batch: toSnapshot(yield* records.get(tx, num)) };
  }

  *pause(tx: RuleTransaction, request: PauseRequest): Act<boolean> {
    const { records, steps } = this.#parts;
    const { scope, name, mode, by, why } = request;
    const under = yield* this.#lockUnder(tx, request);
    if (scope === "batch" && under.length === 0) return false;
    if ((yield* tx.run(PUT_PAUSE, scope, name, mode, by, why, tx.wallMs)) === 0) return false;
    for (const { num } of under) {
      yield* steps.adjustRunning(tx, num);
      yield* records.record(tx, num, {
        type: "batch.paused",
        data: { scope, mode, ...describeAct(request) },
      });
    }
    tx.notify();
    return true;
  }

  *resume(tx: RuleTransaction, request: PauseScope, act: OperatorAct): Act<boolean> {
    const { records, steps, lifecycle } = this.#parts;
    const { scope, name } = request;
    // The batches first: a transaction that ends one of them, and holds its lock, deletes its
    // pause.
    const under = yield* this.#lockUnder(tx, request);
    const paused = (yield* tx.run(DELETE_PAUSE, scope, name)) > 0;
    const parked = scope === "batch" && under.some(({ parked_code: code }) => code !== null);
    if (!paused && !parked) return false;
    const rows = yield* tx.all<{ readonly lane: string }>(SELECT_FREE_LANES[scope], name);
    const lanes = rows.map(({ lane }) => lane);
    yield* tx.lockAll("lane", lanes);
    for (const { num } of under) {
      tx.send(TAKE_UP, num, Math.floor(tx.now));
      yield* steps.adjustRunning(tx, num);
      steps.forgetWatch(tx, num);
      yield* records.record(tx, num, {
        type: "batch.resumed",
        data: { scope, ...describeAct(act) },
      });
    }
    // Lanes without a batch that can run may have one now.
    for (const lane of lanes) yield* lifecycle.startNextInLane(tx, lane);
    tx.notify();
    return true;
  }

  /**
   * The batches that a pause of this scope stops, one for each lane. No other can start until the
   * end, because every start checks the pauses.
   */
  *#lockUnder(
    tx: RuleTransaction,
    { scope, name }: PauseScope,
  ): Act<Pick<BatchRow, "num" | "parked_code">[]> {
    const [, rows] = yield* together(
      tx.lock("pauses", ""),
      tx.all<Pick<BatchRow, "num" | "parked_code">>(LOCK_UNDER[scope], name),
    );
    return rows;
  }

  *setLanePolicy(tx: RuleTransaction, lane: string, policy: LanePolicy): Act<void> {
    yield* this.#parts.lanes.setPolicy(tx, lane, policy);
    yield* this.#parts.lifecycle.startNextInLane(tx, lane);
  }

  *redrive(tx: RuleTransaction, batch: BatchRow, request: RedriveRequest): Act<RedriveResult> {
    const { records, redriving } = this.#parts;
    const { num } = batch;
    const refused = (why: RedriveRefusal): RedriveResult => ({
      kind: "refused",
      batch: toSnapshot(batch),
      why,
    });
    const whyNot = refuseRedrive(batch, request);
    if (whyNot !== null) return refused(whyNot);
    const { matching, busy, redriven, firstStep, lastStep } = yield* this.#countRedrivable(
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
    if (ended) yield* redriving.revive(tx, num, Math.floor(tx.now));
    yield* this.#putBack(tx, batch, request, drive);
    yield* records.record(tx, num, {
      type: "dead_letters.redriven",
      data: { drive, items: redriven, revived, ...describeAct(request) },
    });
    if (ended) yield* this.#reopenAt(tx, batch, Math.min(batch.step, firstStep ?? batch.step));
    return { ...done, batch: toSnapshot(yield* records.get(tx, num)) };
  }

  *#countRedrivable(
    tx: RuleTransaction,
    batch: BatchRow,
    { filter, ceiling }: RedriveRequest,
  ): Act<Survey> {
    let matching = 0;
    let busy = 0;
    let redriven = 0;
    let first: number | null = null;
    let last: number | null = null;
    for (const step of readSteps(batch).keys()) {
      const next = this.#walk(tx, batch.num, step, filter);
      for (let page = yield* next(); page !== null; page = yield* next()) {
        for (const letter of page) {
          matching++;
          if (letter.busy) busy++;
          else if (redriven < ceiling) {
            redriven++;
            first ??= step;
            last = step;
          }
        }
      }
    }
    return { matching, busy, redriven, firstStep: first, lastStep: last };
  }

  /**
   * The next dead letters that are not discarded, maybe none; null after the last. Those in a
   * running chunk are busy.
   */
  #walk(
    tx: RuleTransaction,
    num: number,
    step: number,
    filter: RedriveRequest["filter"],
  ): () => Act<readonly Candidate[] | null> {
    const { deadLetters } = this.#parts;
    let chunk = { finish: -1, state: "" };
    let after = -1;
    return function* next(): Act<readonly Candidate[] | null> {
      const page = yield* deadLetters.readPage(tx, num, step, filter, after);
      const last = page.at(-1);
      if (last === undefined) return null;
      after = last.item;
      const candidates: Candidate[] = [];
      for (const { item, discarded } of page) {
        if (discarded !== null) continue;
        if (item >= chunk.finish) {
          chunk = (yield* tx.get<typeof chunk>(FIND_CHUNK, num, step, item)) as typeof chunk;
        }
        candidates.push({ item, busy: chunk.state === "leased" });
      }
      return candidates;
    };
  }

  *#putBack(
    tx: RuleTransaction,
    batch: BatchRow,
    request: RedriveRequest,
    drive: number,
  ): Act<void> {
    const { num } = batch;
    const pace = { now: Math.floor(tx.now), nth: 0 };
    for (const step of readSteps(batch).keys()) {
      const nextItems = this.#order(tx, num, step, request, pace);
      yield* this.#parts.redriving.putBack(tx, num, step, nextItems, drive);
    }
  }

  /**
   * The dead letters of a step to redrive, each with its due time; `pace` counts over all steps.
   */
  #order(
    tx: RuleTransaction,
    num: number,
    step: number,
    { filter, ceiling, perSecond }: RedriveRequest,
    pace: { readonly now: number; nth: number },
  ): NextItems {
    const next = this.#walk(tx, num, step, filter);
    return function* order(): Act<readonly RedrivenItem[]> {
      const ordered: RedrivenItem[] = [];
      while (ordered.length === 0 && pace.nth < ceiling) {
        const page = yield* next();
        if (page === null) break;
        for (const { item, busy } of page) {
          if (busy || pace.nth >= ceiling) continue;
          ordered.push({ item, dueAt: computeRedriveDueAt(pace.now, pace.nth++, perSecond) });
        }
      }
      return ordered;
    };
  }

  /** To the head of its lane's queue. */
  *#reopenAt(tx: RuleTransaction, batch: BatchRow, step: number): Act<void> {
    const { num, lane, sealed } = batch;
    const { records, lanes, steps, lifecycle } = this.#parts;
    yield* tx.lock("lane", lane);
    tx.send(DROP_ABANDONED, num);
    records.move(tx, batch, "reopen");
    const place = yield* lanes.computeFront(tx, num, lane);
    const row = (yield* tx.get(REOPEN, num, step, place, Math.floor(tx.now))) as { drive: number };
    steps.forgetWatch(tx, num);
    yield* records.record(tx, num, { type: "batch.reopened", data: { step, drive: row.drive } });
    if (sealed === 0) {
      // Its seal deadline has passed: it runs the items it has, or it would expire again at once.
      tx.send(SEAL, num);
      const { planned: items, chunks } = yield* records.get(tx, num);
      yield* records.record(tx, num, { type: "batch.sealed", data: { items, chunks } });
    }
    yield* lifecycle.startNextInLane(tx, lane);
  }
}
