/** What operators do to batches, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { type Act, describeAct, isEnded } from "../../../core/batch/batch.ts";
import type { LanePolicy } from "../../../core/batch/lane.ts";
import { computeRedriveDueAt } from "../../../core/items/redrive.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { ActResult } from "../../../ports/store/conductor-store.ts";
import type {
  CancelRequest,
  PauseRequest,
  PauseScope,
  RedriveRefusal,
  RedriveRequest,
  RedriveResult,
} from "../../../ports/store/operator-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { Lanes } from "./lanes.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { RecordLog } from "../ledger/records.ts";
import type { Redriving } from "./redriving.ts";
import { type RedrivenItem, refuseRedrive, type Survey } from "../../sql/redrive.ts";
import { type BatchRow, countAll, readSteps, toSnapshot } from "../../sql/rows.ts";
import type { Steps } from "./steps.ts";

export interface OperatingParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
  readonly deadLetters: DeadLetters;
  readonly redriving: Redriving;
}

const UNDER = {
  batch: "b.id = ?",
  lane: "b.lane = ? AND b.active = 1",
  pipeline: "b.pipeline = ? AND b.active = 1",
} as const;

export class OperatorActs {
  readonly #parts: OperatingParts;
  readonly #requestCancel: StatementSync;
  readonly #putPause: StatementSync;
  readonly #deletePause: StatementSync;
  readonly #selectUnder: { readonly [Scope in PauseScope["scope"]]: StatementSync };
  readonly #selectFreeLanes: { readonly [Scope in PauseScope["scope"]]: StatementSync };
  readonly #takeUp: StatementSync;
  readonly #findChunk: StatementSync;
  readonly #reopen: StatementSync;
  readonly #seal: StatementSync;
  readonly #dropAbandoned: StatementSync;

  constructor(parts: OperatingParts) {
    this.#parts = parts;
    const prepare = (sql: string): StatementSync => parts.connection.prepare(sql);
    this.#requestCancel = prepare(
      `UPDATE batch SET cancel_mode = ?, cancel_by = ?, cancel_why = ?, cancel_at = ?
       WHERE num = ?`,
    );
    this.#putPause = prepare(
      `INSERT INTO pause (scope, name, mode, paused_by, why, paused_at) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
    );
    this.#deletePause = prepare("DELETE FROM pause WHERE scope = ? AND name = ?");
    const prepareEach = (
      sql: (where: string) => string,
    ): { readonly [Scope in PauseScope["scope"]]: StatementSync } => ({
      batch: prepare(sql(UNDER.batch)),
      lane: prepare(sql(UNDER.lane)),
      pipeline: prepare(sql(UNDER.pipeline)),
    });
    this.#selectUnder = prepareEach(
      (where) =>
        `SELECT b.num, b.parked_code FROM batch b WHERE b.ended_at IS NULL AND ${where}
         ORDER BY b.num`,
    );
    this.#selectFreeLanes = prepareEach(
      (where) =>
        `SELECT b.lane FROM batch b WHERE b.ended_at IS NULL AND b.active = 0
           AND ${where.replace(" AND b.active = 1", "")} GROUP BY b.lane ORDER BY min(b.num)`,
    );
    this.#takeUp = prepare(
      `UPDATE batch SET parked_code = NULL, parked_message = NULL, activity_at = ? WHERE num = ?`,
    );
    this.#findChunk = prepare(
      "SELECT finish, state FROM chunk WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#reopen = prepare(
      `UPDATE batch SET step = ?, place = ?, ended_at = NULL,
         reason_code = NULL, reason_message = NULL, cancel_mode = NULL, cancel_by = NULL,
         cancel_why = NULL, cancel_at = NULL, deadline_at = NULL, activity_at = ?,
         unsent_after = NULL
       WHERE num = ? RETURNING drive`,
    );
    this.#seal = prepare("UPDATE batch SET sealed = 1 WHERE num = ?");
    this.#dropAbandoned = prepare("DELETE FROM abandoned WHERE batch = ?");
  }

  cancel(batch: BatchRow, { mode, by, why }: CancelRequest): ActResult {
    const { clock, records, steps, lifecycle } = this.#parts;
    const { num } = batch;
    if (isEnded(batch.state)) return { kind: "moved_on", batch: toSnapshot(batch) };
    // `now` overrides `drain`; nothing else changes a cancel that is under way.
    const overtakes = batch.cancel_mode === "drain" && mode === "now";
    if (batch.cancel_mode === null || overtakes) {
      this.#requestCancel.run(mode, by, why, clock.wallMs(), num);
      steps.adjustRunning(num);
      records.record(num, {
        type: "batch.cancel_requested",
        data: { mode, ...describeAct({ by, why }) },
      });
    }
    if (!steps.hasLeases(num)) lifecycle.endEarly(records.get(num), "cancel", null);
    return { kind: "done", batch: toSnapshot(records.get(num)) };
  }

  pause(request: PauseRequest): boolean {
    const { clock, records, steps } = this.#parts;
    const { scope, name, mode, by, why } = request;
    if (scope === "batch" && this.#listUnder(request).length === 0) return false;
    const put = this.#putPause.run(scope, name, mode, by, why, clock.wallMs());
    if (put.changes === 0) return false;
    for (const { num } of this.#listUnder(request)) {
      steps.adjustRunning(num);
      records.record(num, {
        type: "batch.paused",
        data: { scope, mode, ...describeAct(request) },
      });
    }
    return true;
  }

  resume(request: PauseScope, act: Act): boolean {
    const { clock, records, steps, lifecycle } = this.#parts;
    const { scope, name } = request;
    const paused = this.#deletePause.run(scope, name).changes > 0;
    const under = this.#listUnder(request);
    const parked = scope === "batch" && under.some(({ parked_code: code }) => code !== null);
    if (!paused && !parked) return false;
    for (const { num } of under) {
      this.#takeUp.run(Math.floor(clock.monotonicMs()), num);
      steps.adjustRunning(num);
      steps.forgetWatch(num);
      records.record(num, { type: "batch.resumed", data: { scope, ...describeAct(act) } });
    }
    // Lanes without a batch that can run may have one now.
    const lanes = this.#selectFreeLanes[scope].all(name) as unknown as { lane: string }[];
    for (const { lane } of lanes) lifecycle.startNextInLane(lane);
    return true;
  }

  /** The batches that a pause of this scope stops: one for each lane. */
  #listUnder({ scope, name }: PauseScope): Pick<BatchRow, "num" | "parked_code">[] {
    const rows = this.#selectUnder[scope].all(name);
    return rows as unknown as Pick<BatchRow, "num" | "parked_code">[];
  }

  setLanePolicy(lane: string, policy: LanePolicy): void {
    this.#parts.lanes.setPolicy(lane, policy);
    this.#parts.lifecycle.startNextInLane(lane);
  }

  redrive(batch: BatchRow, request: RedriveRequest): RedriveResult {
    const { records } = this.#parts;
    const { num } = batch;
    const refused = (why: RedriveRefusal): RedriveResult => ({
      kind: "refused",
      batch: toSnapshot(batch),
      why,
    });
    const whyNot = refuseRedrive(batch, request);
    if (whyNot !== null) return refused(whyNot);
    const { matching, busy, redriven, firstStep, lastStep } = this.#countRedrivable(batch, request);
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
    if (ended) this.#parts.redriving.revive(num, Math.floor(this.#parts.clock.monotonicMs()));
    this.#putBack(batch, request, drive);
    records.record(num, {
      type: "dead_letters.redriven",
      data: { drive, items: redriven, revived, ...describeAct(request) },
    });
    if (ended) this.#reopenAt(batch, Math.min(batch.step, firstStep ?? batch.step));
    return { ...done, batch: toSnapshot(records.get(num)) };
  }

  #countRedrivable(batch: BatchRow, { filter, ceiling }: RedriveRequest): Survey {
    let matching = 0;
    let busy = 0;
    let redriven = 0;
    let first: number | null = null;
    let last: number | null = null;
    for (const step of readSteps(batch).keys()) {
      for (const letter of this.#walk(batch.num, step, filter)) {
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
  *#walk(
    num: number,
    step: number,
    filter: RedriveRequest["filter"],
  ): Generator<{ readonly item: number; readonly busy: boolean }, void, void> {
    const { deadLetters, steps } = this.#parts;
    let chunk = { finish: -1, state: "" };
    for (const { item, discarded } of deadLetters.walk(num, step, filter)) {
      if (discarded !== null) continue;
      if (item >= chunk.finish) {
        const number = steps.findChunk(num, step, item);
        chunk = this.#findChunk.get(num, step, number) as typeof chunk;
      }
      yield { item, busy: chunk.state === "leased" };
    }
  }

  #putBack(batch: BatchRow, request: RedriveRequest, drive: number): void {
    const { clock, redriving } = this.#parts;
    const pace = { now: Math.floor(clock.monotonicMs()), nth: 0 };
    for (const step of readSteps(batch).keys()) {
      redriving.putBack(batch.num, step, this.#order(batch.num, step, request, pace), drive);
    }
  }

  /**
   * The dead letters of a step to redrive, each with its due time; `pace` counts over all steps.
   */
  *#order(
    num: number,
    step: number,
    { filter, ceiling, perSecond }: RedriveRequest,
    pace: { readonly now: number; nth: number },
  ): Generator<RedrivenItem, void, void> {
    for (const { item, busy } of this.#walk(num, step, filter)) {
      if (busy) continue;
      if (pace.nth >= ceiling) return;
      yield { item, dueAt: computeRedriveDueAt(pace.now, pace.nth++, perSecond) };
    }
  }

  /** To the head of its lane's queue. */
  #reopenAt({ num, lane, sealed }: BatchRow, step: number): void {
    const { clock, records, lanes, steps, lifecycle } = this.#parts;
    this.#dropAbandoned.run(num);
    records.move(num, "reopen");
    const place = lanes.computeFront(num, lane);
    const now = Math.floor(clock.monotonicMs());
    const row = this.#reopen.get(step, place, now, num) as { drive: number };
    steps.forgetWatch(num);
    records.record(num, { type: "batch.reopened", data: { step, drive: row.drive } });
    if (sealed === 0) {
      // Its seal deadline has passed: it runs the items it has, or it would expire again at once.
      this.#seal.run(num);
      const { planned: items, chunks } = records.get(num);
      records.record(num, { type: "batch.sealed", data: { items, chunks } });
    }
    lifecycle.startNextInLane(lane);
  }
}
