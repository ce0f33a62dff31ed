/**
 * Advances batches from step to step and to their end, in SQL. Every method runs inside the
 * caller's transaction, which holds the batch's lock.
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
import type { RedrivenItem } from "../../sql/redrive.ts";
import { type BatchRow, countAll, readCounts, readSettings, readTally } from "../../sql/rows.ts";
import type { Lanes } from "./lanes.ts";
import { materialise } from "../chunks/lease-runs.ts";
import type { ConcurrencyPermits } from "../limits/concurrency-permits.ts";
import type { RecordLog } from "../ledger/records.ts";
import type { Redriving } from "./redriving.ts";
import type { FairShares } from "../limits/fair-shares.ts";
import { statement } from "../connection/statement.ts";
import type { Steps } from "./steps.ts";
import type { Transaction } from "../connection/transaction.ts";

export interface LifeParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly redriving: Redriving;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
}

/** Dead letters that a pass reads at once. */
const PAGE = 1_000;

const CODES = CODES_NEVER_REDRIVEN.map((code) => `'${code}'`).join(", ");
const REDRIVABLE = `FROM item WHERE dead = 1 AND batch = $1 AND step = $2
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
  `UPDATE batch SET ended_at = $2, reason_code = $3, reason_message = $4, parked_code = NULL,
     parked_message = NULL WHERE num = $1`,
);
const TOUCH = statement("UPDATE batch SET activity_at = $2 WHERE num = $1");
const DROP_KEYS = statement("DELETE FROM item_key WHERE batch = $1");
const STOP = [
  "UPDATE step SET cancelled = cancelled + pending, pending = 0 WHERE batch = $1",
  `UPDATE chunk SET state = 'cancelled', worker = 0
   WHERE state = 'leased' AND worker > 0 AND batch = $1`,
  "UPDATE chunk SET state = 'cancelled', due_at = NULL WHERE due_at IS NOT NULL AND batch = $1",
].map(statement);
const START_UNSENT = statement("UPDATE batch SET unsent_after = -1 WHERE num = $1");

export class BatchLifecycle {
  readonly #parts: LifeParts;

  constructor(parts: LifeParts) {
    this.#parts = parts;
  }

  /** Applies what a change of its items makes due; returns the batches that ended because of it. */
  async advanceBatch(tx: Transaction, num: number): Promise<string[]> {
    const batch = await this.#parts.records.get(tx, num);
    return (await this.#advance(tx, batch))
      ? [batch.id, ...(await this.startNextInLane(tx, batch.lane))]
      : [];
  }

  /**
   * Starts the next batch of a free lane, past those that end at once; returns those that ended.
   */
  async startNextInLane(tx: Transaction, lane: string): Promise<string[]> {
    const ended: string[] = [];
    for (;;) {
      const next = await this.#parts.lanes.startNextInLane(tx, lane);
      if (next === null) return ended;
      const batch = await this.#parts.records.get(tx, next);
      if (!(await this.#advance(tx, batch))) return ended;
      ended.push(batch.id);
    }
  }

  /** Ends the batch early: items that did not run are cancelled, and no lease is valid any more. */
  async endEarly(
    tx: Transaction,
    batch: BatchRow,
    event: "fail" | "expire" | "cancel",
    reason: EndReason | null,
  ): Promise<string[]> {
    await this.#stopAll(tx, batch, event, reason);
    return [batch.id, ...(await this.startNextInLane(tx, batch.lane))];
  }

  /** True when the batch ended. */
  async #advance(tx: Transaction, batch: BatchRow): Promise<boolean> {
    const { num } = batch;
    if (batch.ended_at !== null) return false;
    if (batch.cancel_mode !== null) {
      if (await this.#parts.steps.hasLeases(tx, num)) return false;
      await this.#stopAll(tx, batch, "cancel", null);
      return true;
    }
    if (batch.state !== "running") return false;
    const steps = readSettings(batch).steps;
    const settings = steps[batch.step] as StepSettings;
    const stopped = await this.#judgeFailures(tx, batch, settings);
    if (stopped !== null) {
      await this.#stopAll(tx, batch, "fail", stopped);
      return true;
    }
    const mayRedrive =
      batch.pending === 0 && batch.failed > 0 && batch.passes < settings.maxRedrives;
    const redrivable = mayRedrive ? await this.#countRedrivable(tx, batch) : 0;
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
        await this.#redrivePass(tx, batch, redrivable, end.final);
        return false;
      case "next_step":
        return this.#startNextStep(tx, batch, steps);
      case "end":
        await this.#end(tx, batch, decideEnding(countAll(batch)), null);
        return true;
    }
  }

  /**
   * Why the failures so far stop the batch; starts the rest of a step once its canary has passed.
   */
  async #judgeFailures(
    tx: Transaction,
    batch: BatchRow,
    { budget, canary }: StepSettings,
  ): Promise<EndReason | null> {
    const { num, step, planned, failed, sealed, canary_chunks: first } = batch;
    const spent =
      budget === null ? null : decideBudget(budget, readTally(batch), planned, sealed === 1);
    if (spent !== null) return describeSpent(spent);
    if (canary === null || first === null) return null;
    const { steps } = this.#parts;
    const unplanned = sealed === 0 && batch.chunks < first;
    const isUnderWay = unplanned || (await steps.hasUnsettled(tx, num, step, first));
    const verdict = decideCanary(canary, failed, isUnderWay);
    if (verdict === "failed") return describeCanaryFailure(canary, failed);
    if (verdict === "passed") await steps.passCanary(tx, num, step);
    return null;
  }

  async #countRedrivable(tx: Transaction, { num, step }: BatchRow): Promise<number> {
    return ((await tx.get(COUNT_REDRIVABLE, num, step)) as { n: number }).n;
  }

  /** A page at a time: the caller redrives the ones that it has seen. */
  async *#walkRedrivable(
    tx: Transaction,
    { num, step }: BatchRow,
    dueAt: number,
  ): AsyncGenerator<RedrivenItem, void, void> {
    for (let afterItem = -1; ; ) {
      const page = await tx.all<{ item: number }>(SELECT_REDRIVABLE, num, step, afterItem, PAGE);
      for (const { item } of page) {
        yield { item, dueAt };
        afterItem = item;
      }
      if (page.length < PAGE) return;
    }
  }

  async #redrivePass(
    tx: Transaction,
    batch: BatchRow,
    items: number,
    final: boolean,
  ): Promise<void> {
    const { records, redriving } = this.#parts;
    const { num, step } = batch;
    const drive = batch.drive + 1;
    const { passes: pass } = (await tx.get(COUNT_PASS, num, step)) as { passes: number };
    const now = Math.floor(tx.now);
    await redriving.putBack(tx, num, step, this.#walkRedrivable(tx, batch, now), drive);
    await records.record(tx, num, {
      type: "dead_letters.redriven",
      data: { step, drive, items, pass, final, by: "engine" },
    });
  }

  /** Starts the next step that has work; true when there is none and the batch ended. */
  async #startNextStep(
    tx: Transaction,
    batch: BatchRow,
    all: readonly StepSettings[],
  ): Promise<boolean> {
    const { records, steps } = this.#parts;
    const { num } = batch;
    await records.record(tx, num, describeStep(batch));
    for (let step = batch.step + 1; step < all.length; step++) {
      const settings = all[step] as StepSettings;
      const known = await steps.find(tx, num, step);
      if (known === undefined) await steps.add(tx, num, step, settings);
      await steps.setCurrent(tx, num, step);
      // A step that an earlier drive planned is planned further only if it gets rescued items.
      if (known === undefined || known.sliced === 0 || settings.carries) {
        await steps.beginPlan(tx, num, step);
        tx.send(TOUCH, num, Math.floor(tx.now));
        await records.move(tx, num, "next_step");
        await steps.adjustRunning(tx, num);
        await records.record(tx, num, { type: "slicing.started", data: { step } });
        return false;
      }
      if (known.pending > 0) {
        await steps.adjustRunning(tx, num);
        return false;
      }
    }
    const last = await records.get(tx, num);
    await this.#end(tx, last, decideEnding(countAll(last)), null);
    return true;
  }

  async #stopAll(
    tx: Transaction,
    batch: BatchRow,
    event: "fail" | "expire" | "cancel",
    reason: EndReason | null,
  ): Promise<void> {
    const { num, step } = batch;
    materialise(tx, num);
    for (const stop of STOP) tx.send(stop, num);
    const { unsentTopic = null } = readSettings(batch).steps[step] as StepSettings;
    if (unsentTopic !== null) tx.send(START_UNSENT, num);
    await this.#end(tx, await this.#parts.records.get(tx, num), event, reason);
  }

  async #end(
    tx: Transaction,
    batch: BatchRow,
    event: BatchEvent,
    reason: EndReason | null,
  ): Promise<void> {
    const { records, lanes, steps, shares, permits } = this.#parts;
    const { num } = batch;
    // An ended batch leaves its lane's queue.
    const [, state, abandoned] = await Promise.all([
      tx.lock("lane", batch.lane),
      records.move(tx, num, event),
      batch.cancel_mode === null ? [] : this.#listAbandoned(tx, num),
    ]);
    invariant(isEnded(state), `${event} must end a batch`);
    const { code = null, message = null } = reason ?? {};
    tx.send(UPDATE_ENDING, num, tx.wallMs, code, message);
    await steps.halt(tx, num);
    tx.send(DROP_KEYS, num);
    await lanes.forgetPause(tx, batch.id);
    await shares.tidy(tx, batch.pipeline);
    await permits.forget(tx, nameCapScope("batch", batch.id));
    await records.record(
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
    );
    await lanes.release(tx, num, batch.lane);
  }

  async #listAbandoned(tx: Transaction, num: number): Promise<Abandoned[]> {
    type Row = { readonly step: number; readonly chunk: number; readonly items: string | null };
    return (await tx.all<Row>(SELECT_ABANDONED, num)).map(({ step, chunk, items }) => ({
      step,
      chunk,
      items: items === null ? null : (JSON.parse(items) as number[]),
    }));
  }
}

function describeStep(batch: BatchRow): ReturnType<typeof describeStepEnd> {
  const { step, name } = batch;
  return describeStepEnd({ step, name, counts: readCounts(batch) });
}
