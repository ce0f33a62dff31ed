/**
 * Advances batches from step to step and to their end, in SQL. Every method runs inside the
 * caller's transaction.
 */
import type { StatementSync } from "node:sqlite";
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
import type { Clock } from "../../../ports/clock.ts";
import type { Connection } from "../connection/connection.ts";
import type { Lanes } from "./lanes.ts";
import type { ConcurrencyPermits } from "../limits/concurrency-permits.ts";
import type { RecordLog } from "../ledger/records.ts";
import type { Redriving } from "./redriving.ts";
import type { RedrivenItem } from "../../sql/redrive.ts";
import { type BatchRow, countAll, readCounts, readSettings, readTally } from "../../sql/rows.ts";
import type { FairShares } from "../limits/fair-shares.ts";
import type { Steps } from "./steps.ts";

export interface LifeParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly redriving: Redriving;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
}

/** Dead letters that a pass reads at once. */
const PAGE = 1_000;

export class BatchLifecycle {
  readonly #parts: LifeParts;
  readonly #redrivable: StatementSync;
  readonly #selectRedrivable: StatementSync;
  readonly #countPass: StatementSync;
  readonly #selectAbandoned: StatementSync;
  readonly #updateEnding: StatementSync;
  readonly #touch: StatementSync;
  readonly #stop: readonly StatementSync[];
  readonly #dropKeys: StatementSync;

  constructor(parts: LifeParts) {
    this.#parts = parts;
    const prepare = (sql: string): StatementSync => parts.connection.prepare(sql);
    const codes = CODES_NEVER_REDRIVEN.map((code) => `'${code}'`).join(", ");
    const redrivable = `FROM item INDEXED BY item_dead WHERE dead = 1 AND batch = ? AND step = ?
      AND error_class <> 'permanent' AND code NOT IN (${codes}) AND discarded_by IS NULL`;
    this.#redrivable = prepare(`SELECT count(*) AS n ${redrivable}`);
    this.#selectRedrivable = prepare(
      `SELECT item ${redrivable} AND item > ? ORDER BY item LIMIT ?`,
    );
    this.#countPass = prepare(
      "UPDATE step SET passes = passes + 1 WHERE batch = ? AND step = ? RETURNING passes",
    );
    this.#selectAbandoned = prepare(
      "SELECT step, chunk, items FROM abandoned WHERE batch = ? ORDER BY step, chunk",
    );
    this.#updateEnding = prepare(
      `UPDATE batch SET ended_at = ?, reason_code = ?, reason_message = ?, parked_code = NULL,
         parked_message = NULL WHERE num = ?`,
    );
    this.#touch = prepare("UPDATE batch SET activity_at = ? WHERE num = ?");
    this.#dropKeys = prepare("DELETE FROM item_key WHERE batch = ?");
    this.#stop = [
      "UPDATE step SET cancelled = cancelled + pending, pending = 0 WHERE batch = ?",
      `UPDATE chunk INDEXED BY chunk_lease SET state = 'cancelled'
       WHERE state = 'leased' AND batch = ?`,
      `UPDATE chunk INDEXED BY chunk_due SET state = 'cancelled'
       WHERE state = 'waiting' AND batch = ?`,
      `UPDATE batch SET unsent_after = -1
       WHERE num = ? AND settings ->> ('$.steps[' || step || '].unsentTopic') IS NOT NULL`,
    ].map(prepare);
  }

  /** Applies what a change of its items makes due; returns the batches that ended because of it. */
  advanceBatch(num: number): string[] {
    const batch = this.#parts.records.get(num);
    return this.#advance(batch) ? [batch.id, ...this.startNextInLane(batch.lane)] : [];
  }

  /**
   * Starts the next batch of a free lane, past those that end at once; returns those that ended.
   */
  startNextInLane(lane: string): string[] {
    const ended: string[] = [];
    for (;;) {
      const next = this.#parts.lanes.startNextInLane(lane);
      if (next === null) return ended;
      const batch = this.#parts.records.get(next);
      if (!this.#advance(batch)) return ended;
      ended.push(batch.id);
    }
  }

  /** Ends the batch early: items that did not run are cancelled, and no lease is valid any more. */
  endEarly(
    batch: BatchRow,
    event: "fail" | "expire" | "cancel",
    reason: EndReason | null,
  ): string[] {
    this.#stopAll(batch, event, reason);
    return [batch.id, ...this.startNextInLane(batch.lane)];
  }

  /** True when the batch ended. */
  #advance(batch: BatchRow): boolean {
    const { num } = batch;
    if (batch.ended_at !== null) return false;
    if (batch.cancel_mode !== null) {
      if (this.#parts.steps.hasLeases(num)) return false;
      this.#stopAll(batch, "cancel", null);
      return true;
    }
    if (batch.state !== "running") return false;
    const steps = readSettings(batch).steps;
    const settings = steps[batch.step] as StepSettings;
    const stopped = this.#judgeFailures(batch, settings);
    if (stopped !== null) {
      this.#stopAll(batch, "fail", stopped);
      return true;
    }
    const mayRedrive =
      batch.pending === 0 && batch.failed > 0 && batch.passes < settings.maxRedrives;
    const redrivable = mayRedrive ? this.#countRedrivable(batch) : 0;
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
        this.#redrivePass(batch, redrivable, end.final);
        return false;
      case "next_step":
        return this.#startNextStep(batch, steps);
      case "end":
        this.#end(batch, decideEnding(countAll(batch)), null);
        return true;
    }
  }

  /**
   * Why the failures so far stop the batch; starts the rest of a step once its canary has passed.
   */
  #judgeFailures(batch: BatchRow, { budget, canary }: StepSettings): EndReason | null {
    const { num, step, planned, failed, sealed, canary_chunks: first } = batch;
    const spent =
      budget === null ? null : decideBudget(budget, readTally(batch), planned, sealed === 1);
    if (spent !== null) return describeSpent(spent);
    if (canary === null || first === null) return null;
    const { steps } = this.#parts;
    const unplanned = sealed === 0 && batch.chunks < first;
    const isUnderWay = unplanned || steps.hasUnsettled(num, step, first);
    const verdict = decideCanary(canary, failed, isUnderWay);
    if (verdict === "failed") return describeCanaryFailure(canary, failed);
    if (verdict === "passed") steps.passCanary(num, step);
    return null;
  }

  #countRedrivable({ num, step }: BatchRow): number {
    return (this.#redrivable.get(num, step) as { n: number }).n;
  }

  /** A page at a time: the caller redrives the ones that it has seen. */
  *#walkRedrivable({ num, step }: BatchRow, dueAt: number): Generator<RedrivenItem, void, void> {
    for (let afterItem = -1; ; ) {
      const page = this.#selectRedrivable.all(num, step, afterItem, PAGE);
      for (const { item } of page as unknown as { item: number }[]) {
        yield { item, dueAt };
        afterItem = item;
      }
      if (page.length === 0) return;
    }
  }

  #redrivePass(batch: BatchRow, items: number, final: boolean): void {
    const { clock, records, redriving } = this.#parts;
    const { num, step } = batch;
    const drive = batch.drive + 1;
    const { passes: pass } = this.#countPass.get(num, step) as { passes: number };
    const now = Math.floor(clock.monotonicMs());
    redriving.putBack(num, step, this.#walkRedrivable(batch, now), drive);
    records.record(num, {
      type: "dead_letters.redriven",
      data: { step, drive, items, pass, final, by: "engine" },
    });
  }

  /** Starts the next step that has work; true when there is none and the batch ended. */
  #startNextStep(batch: BatchRow, all: readonly StepSettings[]): boolean {
    const { records, steps, clock } = this.#parts;
    const { num } = batch;
    records.record(num, describeStep(batch));
    for (let step = batch.step + 1; step < all.length; step++) {
      const settings = all[step] as StepSettings;
      const known = steps.find(num, step);
      if (known === undefined) steps.add(num, step, settings);
      steps.setCurrent(num, step);
      // A step that an earlier drive planned is planned further only if it gets rescued items.
      if (known === undefined || known.sliced === 0 || settings.carries) {
        steps.beginPlan(num, step);
        this.#touch.run(Math.floor(clock.monotonicMs()), num);
        records.move(num, "next_step");
        steps.adjustRunning(num);
        records.record(num, { type: "slicing.started", data: { step } });
        return false;
      }
      if (known.pending > 0) {
        steps.adjustRunning(num);
        return false;
      }
    }
    const last = records.get(num);
    this.#end(last, decideEnding(countAll(last)), null);
    return true;
  }

  #stopAll(batch: BatchRow, event: "fail" | "expire" | "cancel", reason: EndReason | null): void {
    for (const statement of this.#stop) statement.run(batch.num);
    this.#end(this.#parts.records.get(batch.num), event, reason);
  }

  #end(batch: BatchRow, event: BatchEvent, reason: EndReason | null): void {
    const { records, lanes, steps, clock, shares, permits } = this.#parts;
    const { num } = batch;
    const state = records.move(num, event);
    invariant(isEnded(state), `${event} must end a batch`);
    const { code = null, message = null } = reason ?? {};
    this.#updateEnding.run(clock.wallMs(), code, message, num);
    steps.halt(num);
    this.#dropKeys.run(num);
    lanes.forgetPause(batch.id);
    shares.tidy(batch.pipeline);
    permits.forget(nameCapScope("batch", batch.id));
    records.record(
      num,
      ...describeEnding({
        from: batch.state,
        to: state,
        step: { step: batch.step, name: batch.name, counts: readCounts(batch) },
        counts: countAll(batch),
        drive: batch.drive,
        reason,
        abandoned: batch.cancel_mode === null ? [] : this.#listAbandoned(num),
      }),
    );
    lanes.release(num, batch.lane);
  }

  #listAbandoned(num: number): Abandoned[] {
    type Row = { readonly step: number; readonly chunk: number; readonly items: string | null };
    return (this.#selectAbandoned.all(num) as unknown as Row[]).map(({ step, chunk, items }) => ({
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
