/**
 * Advances batches from step to step and to their end. On a server, the caller's transaction holds
 * the batch's lock.
 */
import {
  type BatchEvent,
  decideEnding,
  type EndReason,
  isEnded,
} from "../../../core/batch/batch.ts";
import { nameCapScope } from "../../../core/limits/caps.ts";
import { decideBudget, describeSpent } from "../../../core/batch/failure-budget.ts";
import { invariant } from "../../../core/base/invariant.ts";
import {
  type Abandoned,
  CODES_NEVER_REDRIVEN,
  decideCanary,
  decideStepEnd,
  describeCanaryFailure,
  describeEnding,
  describeStepEnd,
  type StepSettings,
} from "../../../core/batch/step.ts";
import type { RedrivenItem } from "../redrive.ts";
import { countAll, type LifecycleRow, readCounts, readSettings, readTally } from "../rows.ts";
import { type Act, answered, together } from "../dialect/act.ts";
import { SELECT_LIFECYCLE } from "./columns.ts";
import { dropIdleTenants } from "./idle-tenants.ts";
import type { Lanes } from "./lanes.ts";
import { decideNextState, type RecordLog } from "./records.ts";
import type { NextItems, Redriving } from "./redriving.ts";
import { statement } from "../dialect/statement.ts";
import type { Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

export interface LifecycleParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly redriving: Redriving;
  /** Writes out what is known of leased chunks only as a range, before all are changed at once. */
  readonly writeOutLeases: (tx: RuleTransaction, num: number) => void;
}

/** Dead letters that a pass reads at once. */
const PAGE = 1_000;

const FIND = statement(`${SELECT_LIFECYCLE} WHERE b.num = $1`);
const CODES = CODES_NEVER_REDRIVEN.map((code) => `'${code}'`).join(", ");
const REDRIVABLE = `FROM item /*sqlite INDEXED BY item_dead*/ WHERE dead = 1 AND batch = $1 AND step = $2
  AND error_class <> 'permanent' AND code NOT IN (${CODES}) AND discarded_by IS NULL`;
const COUNT_REDRIVABLE = statement(`SELECT count(*) AS n ${REDRIVABLE}`);
const SELECT_REDRIVABLE = statement(
  `SELECT item ${REDRIVABLE} AND item > $3 ORDER BY item LIMIT $4`,
);
const COUNT_PASS = statement(
  "UPDATE step SET passes = passes + 1 WHERE batch = $1 AND step = $2 RETURNING passes",
);
const SELECT_ABANDONED = statement(
  "SELECT step, chunk, items FROM abandoned WHERE batch = $1 ORDER BY step, chunk",
);
const UPDATE_ENDING = statement(
  // It leaves its lane, and the lane's queue.
  `UPDATE batch SET state = $2, active = 0, ended_at = $3, reason_code = $4, reason_message = $5,
     parked_code = NULL, parked_message = NULL WHERE num = $1`,
);
const TOUCH = statement("UPDATE batch SET activity_at = $2 WHERE num = $1");
const DROP_KEYS = statement("DELETE FROM item_key WHERE batch = $1");
const STOP = [
  "UPDATE step SET cancelled = cancelled + pending, pending = 0 WHERE batch = $1",
  `UPDATE chunk /*sqlite INDEXED BY chunk_lease*/ SET state = 'cancelled', worker = 0
   WHERE state = 'leased' /*postgres AND worker > 0*/ AND batch = $1`,
  `UPDATE chunk /*sqlite INDEXED BY chunk_due SET state = 'cancelled' WHERE state = 'waiting'*/
     /*postgres SET state = 'cancelled', due_at = NULL WHERE due_at IS NOT NULL*/ AND batch = $1`,
].map(statement);
const DROP_PERMITS = statement("DELETE FROM permit WHERE scope = $1");
const START_UNSENT = statement("UPDATE batch SET unsent_after = -1 WHERE num = $1");

export class BatchLifecycle {
  readonly #parts: LifecycleParts;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** Applies what a change of its items makes due; returns the batches that ended because of it. */
  *advanceBatch(tx: RuleTransaction, num: number): Act<string[]> {
    const batch = yield* this.#find(tx, num);
    return (yield* this.#advance(tx, batch))
      ? [batch.id, ...(yield* this.startNextInLane(tx, batch.lane))]
      : [];
  }

  /**
   * Starts the next batch of a free lane, past those that end at once; returns those that ended.
   */
  *startNextInLane(tx: RuleTransaction, lane: string): Act<string[]> {
    const ended: string[] = [];
    for (;;) {
      const next = yield* this.#parts.lanes.startNextInLane(tx, lane);
      if (next === null) return ended;
      const batch = yield* this.#find(tx, next);
      if (!(yield* this.#advance(tx, batch))) return ended;
      ended.push(batch.id);
    }
  }

  /** Ends the batch early: items that did not run are cancelled, and no lease is valid any more. */
  *endEarly(
    tx: RuleTransaction,
    batch: LifecycleRow,
    event: "fail" | "expire" | "cancel",
    reason: EndReason | null,
  ): Act<string[]> {
    yield* this.#stopAll(tx, batch, event, reason);
    return [batch.id, ...(yield* this.startNextInLane(tx, batch.lane))];
  }

  *#find(tx: RuleTransaction, num: number): Act<LifecycleRow> {
    const row = yield* tx.get<LifecycleRow>(FIND, num);
    invariant(row !== undefined, `batch number ${num} exists`);
    return row;
  }

  /** True when the batch ended. */
  *#advance(tx: RuleTransaction, batch: LifecycleRow): Act<boolean> {
    const { num } = batch;
    if (isEnded(batch.state)) return false;
    if (batch.cancel_mode !== null) {
      if (yield* this.#parts.steps.hasLeases(tx, num)) return false;
      yield* this.#stopAll(tx, batch, "cancel", null);
      return true;
    }
    if (batch.state !== "running") return false;
    // Its settings are read where they decide something.
    if (batch.pending > 0 && batch.watched_failures === 0) return false;
    const steps = readSettings(batch).steps;
    const settings = steps[batch.step] as StepSettings;
    const stopped = yield* this.#judgeFailures(tx, batch, settings);
    if (stopped !== null) {
      yield* this.#stopAll(tx, batch, "fail", stopped);
      return true;
    }
    const mayRedrive =
      batch.pending === 0 && batch.failed > 0 && batch.passes < settings.maxRedrives;
    const redrivable = mayRedrive ? yield* this.#countRedrivable(tx, batch) : 0;
    const end = decideStepEnd({
      counts: batch,
      sealed: batch.sealed === 1,
      passes: batch.passes,
      maxRedrives: settings.maxRedrives,
      redrivable,
      isLast: batch.step === steps.length - 1,
    });
    switch (end.kind) {
      case "goes_on":
        return false;
      case "redrive":
        yield* this.#redrivePass(tx, batch, redrivable, end.final);
        return false;
      case "next_step":
        return yield* this.#startNextStep(tx, batch, steps);
      case "end":
        yield* this.#end(tx, batch, decideEnding(countAll(batch)), null);
        return true;
    }
  }

  /**
   * Why the failures so far stop the batch; starts the rest of a step once its canary has passed.
   */
  *#judgeFailures(
    tx: RuleTransaction,
    batch: LifecycleRow,
    { budget, canary }: StepSettings,
  ): Act<EndReason | null> {
    const { num, step, planned, failed, sealed, canary_chunks: first } = batch;
    const spent =
      budget === null ? null : decideBudget(budget, readTally(batch), planned, sealed === 1);
    if (spent !== null) return describeSpent(spent);
    if (canary === null || first === null) return null;
    const { steps } = this.#parts;
    const unplanned = sealed === 0 && batch.chunks < first;
    const isUnderWay = unplanned || (yield* steps.hasUnsettled(tx, num, step, first));
    const verdict = decideCanary(canary, failed, isUnderWay);
    if (verdict === "failed") return describeCanaryFailure(canary, failed);
    if (verdict === "passed") steps.passCanary(tx, num, step);
    return null;
  }

  *#countRedrivable(tx: RuleTransaction, { num, step }: LifecycleRow): Act<number> {
    return ((yield* tx.get(COUNT_REDRIVABLE, num, step)) as { n: number }).n;
  }

  /** A page at a time: the caller redrives the ones that it has seen. */
  #walkRedrivable(tx: RuleTransaction, { num, step }: LifecycleRow, dueAt: number): NextItems {
    let afterItem = -1;
    return function* next(): Act<readonly RedrivenItem[]> {
      const rows = yield* tx.all<{ item: number }>(SELECT_REDRIVABLE, num, step, afterItem, PAGE);
      afterItem = rows.at(-1)?.item ?? afterItem;
      return rows.map(({ item }) => ({ item, dueAt }));
    };
  }

  *#redrivePass(
    tx: RuleTransaction,
    batch: LifecycleRow,
    items: number,
    final: boolean,
  ): Act<void> {
    const { records, redriving } = this.#parts;
    const { num, step } = batch;
    const drive = batch.drive + 1;
    const { passes: pass } = (yield* tx.get(COUNT_PASS, num, step)) as { passes: number };
    const now = Math.floor(tx.now);
    yield* redriving.putBack(tx, num, step, this.#walkRedrivable(tx, batch, now), drive);
    yield* records.record(tx, num, {
      type: "dead_letters.redriven",
      data: { step, drive, items, pass, final, by: "engine" },
    });
  }

  /** Starts the next step that has work; true when there is none and the batch ended. */
  *#startNextStep(
    tx: RuleTransaction,
    batch: LifecycleRow,
    all: readonly StepSettings[],
  ): Act<boolean> {
    const { records, steps } = this.#parts;
    const { num } = batch;
    yield* records.record(tx, num, describeStep(batch));
    for (let step = batch.step + 1; step < all.length; step++) {
      const settings = all[step] as StepSettings;
      const known = yield* steps.find(tx, num, step);
      if (known === undefined) steps.add(tx, num, step, settings);
      steps.setCurrent(tx, num, step);
      // A step that an earlier drive planned is planned further only if it gets rescued items.
      if (known === undefined || known.sliced === 0 || settings.carries) {
        steps.beginPlan(tx, num, step);
        tx.send(TOUCH, num, Math.floor(tx.now));
        records.move(tx, batch, "next_step");
        yield* steps.adjustRunning(tx, num);
        yield* records.record(tx, num, { type: "slicing.started", data: { step } });
        return false;
      }
      if (known.pending > 0) {
        yield* steps.adjustRunning(tx, num);
        return false;
      }
    }
    const last = yield* this.#find(tx, num);
    yield* this.#end(tx, last, decideEnding(countAll(last)), null);
    return true;
  }

  *#stopAll(
    tx: RuleTransaction,
    batch: LifecycleRow,
    event: "fail" | "expire" | "cancel",
    reason: EndReason | null,
  ): Act<void> {
    const { num, step } = batch;
    this.#parts.writeOutLeases(tx, num);
    for (const stop of STOP) tx.send(stop, num);
    const { unsentTopic = null } = readSettings(batch).steps[step] as StepSettings;
    if (unsentTopic !== null) tx.send(START_UNSENT, num);
    yield* this.#end(tx, yield* this.#find(tx, num), event, reason);
  }

  *#end(
    tx: RuleTransaction,
    batch: LifecycleRow,
    event: BatchEvent,
    reason: EndReason | null,
  ): Act<void> {
    const { records, lanes, steps } = this.#parts;
    const { num } = batch;
    const state = decideNextState(batch.state, event);
    const [, abandoned] = yield* together(
      tx.lock("lane", batch.lane),
      batch.cancel_mode === null ? answered([]) : this.#listAbandoned(tx, num),
    );
    invariant(isEnded(state), `${event} must end a batch`);
    const { code = null, message = null } = reason ?? {};
    tx.send(UPDATE_ENDING, num, state, tx.wallMs, code, message);
    steps.halt(tx, num);
    tx.send(DROP_KEYS, num);
    lanes.forgetPause(tx, batch.id);
    yield* dropIdleTenants(tx, batch.pipeline);
    tx.send(DROP_PERMITS, nameCapScope("batch", batch.id));
    yield* records.record(
      tx,
      num,
      ...describeEnding({
        from: batch.state,
        to: state,
        step: { step: batch.step, name: batch.name, counts: readCounts(batch) },
        counts: countAll(batch),
        drive: batch.drive,
        reason,
        abandoned,
      }),
      ...lanes.describeRelease(batch),
    );
  }

  *#listAbandoned(tx: RuleTransaction, num: number): Act<Abandoned[]> {
    type Row = { readonly step: number; readonly chunk: number; readonly items: string | null };
    return (yield* tx.all<Row>(SELECT_ABANDONED, num)).map(({ step, chunk, items }) => ({
      step,
      chunk,
      items: items === null ? null : (JSON.parse(items) as number[]),
    }));
  }
}

function describeStep(batch: LifecycleRow): ReturnType<typeof describeStepEnd> {
  const { step, name } = batch;
  return describeStepEnd({ step, name, counts: readCounts(batch) });
}
