/** Submitting, slicing, sealing and ending in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { type EndReason, isEnded } from "../../../core/batch/batch.ts";
import { canonicalize, type Json } from "../../../core/base/canonical-json.ts";
import { CHAIN_START } from "../../../core/ledger/chain.ts";
import { createOutcomeMap } from "../../../core/items/outcome-map.ts";
import { computeCanaryChunks, type StepSettings } from "../../../core/batch/step.ts";
import type { Clock } from "../../../ports/clock.ts";
import {
  type ActResult,
  type PlanPart,
  type PlanResult,
  type Submission,
  type SubmitResult,
  describeSubmitted,
} from "../../../ports/store/conductor-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { Lanes } from "./lanes.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { RecordLog } from "../ledger/records.ts";
import { fitsPlan, gatherKeys, isOpen } from "../../sql/plan-part.ts";
import { type BatchRow, readSettings, toSnapshot } from "../../sql/rows.ts";
import { SELECT_BATCH } from "../connection/rows.ts";
import type { Steps } from "./steps.ts";

export interface ConductingParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
}

export class Planning {
  readonly #parts: ConductingParts;
  readonly #findById: StatementSync;
  readonly #findByKey: StatementSync;
  readonly #findUnfinished: StatementSync;
  readonly #insertBatch: StatementSync;
  readonly #touch: StatementSync;
  readonly #sealBatch: StatementSync;
  readonly #dropKeys: StatementSync;
  readonly #dropPlan: readonly StatementSync[];
  readonly #findPart: StatementSync;
  readonly #insertChunk: StatementSync;
  readonly #insertManifest: StatementSync;
  readonly #insertKey: StatementSync;
  readonly #findKey: StatementSync;
  readonly #growStep: StatementSync;
  readonly #finishPlan: StatementSync;
  readonly #raiseFence: StatementSync;

  constructor(parts: ConductingParts) {
    this.#parts = parts;
    const prepare = (sql: string): StatementSync => parts.connection.prepare(sql);
    this.#findById = prepare(`${SELECT_BATCH} WHERE b.id = ?`);
    this.#findByKey = prepare(`${SELECT_BATCH} WHERE b.pipeline = ? AND b.submit_key = ?`);
    this.#findUnfinished = prepare(
      `${SELECT_BATCH} WHERE b.pipeline = ? AND b.lane = ? AND b.submit_key IS NULL
       AND b.input_hash = ? AND b.ended_at IS NULL ORDER BY b.num DESC LIMIT 1`,
    );
    this.#insertBatch = prepare(
      `INSERT INTO batch (id, pipeline, version, lane, tenant, weight, submit_key, input,
         input_hash, settings, state, place, open, seal_deadline_at, deadline_at, submitted_at,
         activity_at, record_hash, item_ledger, keep_ms, keep_evidence_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'submitted', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#touch = prepare("UPDATE batch SET activity_at = ? WHERE num = ?");
    this.#sealBatch = prepare("UPDATE batch SET sealed = 1 WHERE num = ?");
    this.#dropKeys = prepare("DELETE FROM item_key WHERE batch = ?");
    this.#dropPlan = [
      // Chunks of earlier drives stay; none of the others has run.
      `UPDATE step SET planned = planned - fresh.items, pending = pending - fresh.items,
         chunks = base_chunks, next_chunk = min(next_chunk, base_chunks), slice_cursor = NULL,
         last_part = NULL
       FROM (SELECT coalesce(sum(c.finish - c.start), 0) AS items FROM step s
             JOIN chunk c ON c.batch = s.batch AND c.step = s.step AND c.chunk >= s.base_chunks
             WHERE s.batch = ? AND s.step = ?) AS fresh
       WHERE batch = ? AND step = ?`,
      `DELETE FROM chunk WHERE batch = ? AND step = ? AND chunk >= (
         SELECT chunks FROM step WHERE batch = ? AND step = ?)`,
      `DELETE FROM manifest WHERE batch = ? AND step = ? AND chunk >= (
         SELECT chunks FROM step WHERE batch = ? AND step = ?)`,
    ].map(prepare);
    this.#findPart = prepare(
      "SELECT part FROM manifest WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#insertChunk = prepare(
      `INSERT INTO chunk (batch, step, chunk, start, finish, outcomes, locator)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#insertManifest = prepare(
      "INSERT INTO manifest (batch, step, chunk, part, items) VALUES (?, ?, ?, ?, ?)",
    );
    this.#insertKey = prepare("INSERT INTO item_key (batch, key, item) VALUES (?, ?, ?)");
    this.#findKey = prepare("SELECT item FROM item_key WHERE batch = ? AND key = ?");
    this.#growStep = prepare(
      `UPDATE step SET chunks = chunks + ?, planned = planned + ?, pending = pending + ?,
         slice_cursor = ?, last_part = ?,
         leasable_at = iif(running = 1 AND next_chunk < coalesce(canary_chunks, next_chunk + 1),
           0, leasable_at)
       WHERE batch = ? AND step = ?`,
    );
    this.#raiseFence = prepare(
      "UPDATE step SET slice_fence = slice_fence + 1 WHERE batch = ? AND step = ?",
    );
    this.#finishPlan = prepare(
      `UPDATE step SET sliced = 1, sliced_drive = (SELECT drive FROM batch WHERE num = step.batch),
         canary_chunks = iif(base_chunks > 0, canary_chunks, ?)
       WHERE batch = ? AND step = ?`,
    );
  }

  /** The batch's row, or undefined. */
  find(id: string): BatchRow | undefined {
    return this.#findById.get(id) as BatchRow | undefined;
  }

  submit(submission: Submission): SubmitResult {
    const same = this.#findSame(submission);
    if (same !== undefined) {
      const taken = same.input_hash !== submission.inputHash;
      return { kind: taken ? "key_taken" : "existing", batch: toSnapshot(same) };
    }
    const { id, pipeline, version, lane, key, input, inputHash, open } = submission;
    const { clock, records, lanes, steps, lifecycle } = this.#parts;
    const now = clock.wallMs();
    const needsProducer = open || input === null;
    const { lastInsertRowid } = this.#insertBatch.run(
      id,
      pipeline,
      version,
      lane,
      submission.tenant ?? lane,
      submission.settings.weight ?? 1,
      key,
      input,
      inputHash,
      canonicalize(submission.settings as unknown as Json),
      lanes.computeBack(lane),
      open ? 1 : 0,
      needsProducer ? now + submission.sealWithinMs : null,
      submission.deadlineAt,
      now,
      Math.floor(clock.monotonicMs()),
      CHAIN_START.hash,
      submission.settings.ledger?.item === true ? 1 : 0,
      submission.settings.retention?.keepMs ?? null,
      submission.settings.retention?.keepEvidenceMs ?? null,
    );
    const num = Number(lastInsertRowid);
    steps.add(num, 0, submission.settings.steps[0] as StepSettings);
    records.record(num, describeSubmitted(submission));
    lifecycle.startNextInLane(lane);
    return { kind: "created", batch: this.#snapshot(num) };
  }

  #findSame(submission: Submission): BatchRow | undefined {
    const { id, pipeline, lane, key, inputHash, resume } = submission;
    const repeated = this.find(id);
    if (repeated !== undefined) return repeated;
    if (key !== null) return this.#findByKey.get(pipeline, key) as BatchRow | undefined;
    if (!resume) return undefined;
    return this.#findUnfinished.get(pipeline, lane, inputHash) as BatchRow | undefined;
  }

  startSlicing(batch: BatchRow, afresh: boolean): ActResult {
    const { num, state, step } = batch;
    const { records, clock } = this.#parts;
    if (state === "submitted") {
      records.move(num, "start_slicing");
      records.record(num, { type: "slicing.started", data: { step } });
    } else if (state !== "slicing") {
      return this.#movedOn(batch);
    } else if (afresh) {
      for (const drop of this.#dropPlan) drop.run(num, step, num, step);
      this.#dropKeys.run(num);
    }
    this.#raiseFence.run(num, step);
    this.#touch.run(Math.floor(clock.monotonicMs()), num);
    return this.#done(num);
  }

  plan(batch: BatchRow, part: PlanPart): PlanResult {
    const { num } = batch;
    if (!fitsPlan(batch, part)) {
      return this.#isThere(batch, part)
        ? { kind: "planned", chunks: part.afterChunks + part.chunks.length }
        : this.#movedOn(batch);
    }
    const duplicate = this.#claimKeys(batch, part);
    if (duplicate !== null) return duplicate;
    let start = batch.planned;
    for (const [offset, { items, locator, manifest }] of part.chunks.entries()) {
      const chunk = part.afterChunks + offset;
      const map = createOutcomeMap(items);
      this.#insertChunk.run(num, part.step, chunk, start, start + items, map, locator);
      if (manifest !== null) this.#insertManifest.run(num, part.step, chunk, part.part, manifest);
      start += items;
    }
    const items = start - batch.planned;
    const { chunks, cursor, part: name, step } = part;
    this.#growStep.run(chunks.length, items, items, cursor, name, num, step);
    this.#touch.run(Math.floor(this.#parts.clock.monotonicMs()), num);
    return { kind: "planned", chunks: part.afterChunks + part.chunks.length };
  }

  /**
   * Whether the part was added before: as the newest one or, with several producers, further back.
   */
  #isThere({ num, last_part }: BatchRow, { part, step, afterChunks }: PlanPart): boolean {
    const found = this.#findPart.get(num, step, afterChunks) as { part: string } | undefined;
    return last_part === part || found?.part === part;
  }

  /** Finds a duplicate key before any of the part is written. */
  #claimKeys(batch: BatchRow, part: PlanPart): PlanResult | null {
    const { num, planned } = batch;
    const find = (key: string): { item: number } | undefined =>
      this.#findKey.get(num, key) as { item: number } | undefined;
    const keys = gatherKeys(part, planned, (key) => find(key)?.item);
    if (!(keys instanceof Map)) return keys;
    for (const [key, item] of keys) this.#insertKey.run(num, key, item);
    return null;
  }

  finishSlicing(batch: BatchRow, chunks: number, fence: number): ActResult {
    const { num, step, active } = batch;
    const { records, steps, lifecycle } = this.#parts;
    const slices = batch.state === "slicing" && batch.slice_fence === fence;
    if (!slices || batch.chunks !== chunks) return this.#movedOn(batch);
    records.record(num, {
      type: "slicing.finished",
      data: { step, items: batch.planned, chunks },
    });
    const { canary, chunkSize } = readSettings(batch).steps[step] as StepSettings;
    const canaryChunks = canary === null ? null : computeCanaryChunks(canary, chunkSize);
    this.#finishPlan.run(canaryChunks, num, step);
    if (batch.open === 0 || step > 0) this.#close(num);
    records.move(num, active === 1 ? "finish_slicing" : "await_turn");
    steps.adjustRunning(num);
    lifecycle.advanceBatch(num);
    return this.#done(num);
  }

  seal(batch: BatchRow): ActResult {
    const { num } = batch;
    if (batch.sealed === 1) return this.#done(num);
    if (!isOpen(batch.state)) return this.#movedOn(batch);
    this.#close(num);
    this.#parts.records.record(num, {
      type: "batch.sealed",
      data: { items: batch.planned, chunks: batch.chunks },
    });
    this.#parts.lifecycle.advanceBatch(num);
    return this.#done(num);
  }

  #close(num: number): void {
    this.#sealBatch.run(num);
    this.#dropKeys.run(num);
  }

  fail(batch: BatchRow, reason: EndReason): ActResult {
    if (isEnded(batch.state)) return this.#movedOn(batch);
    this.#parts.lifecycle.endEarly(batch, "fail", reason);
    return this.#done(batch.num);
  }

  #snapshot(num: number): ReturnType<typeof toSnapshot> {
    return toSnapshot(this.#parts.records.get(num));
  }

  #done(num: number): ActResult {
    return { kind: "done", batch: this.#snapshot(num) };
  }

  #movedOn(batch: BatchRow): ActResult & { kind: "moved_on" } {
    return { kind: "moved_on", batch: toSnapshot(batch) };
  }
}
