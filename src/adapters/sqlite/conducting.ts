/** Submitting, slicing, sealing and ending in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { type EndReason, isEnded } from "../../core/batch.ts";
import { canonicalize } from "../../core/canonical-json.ts";
import { CHAIN_START } from "../../core/chain.ts";
import { createOutcomeMap } from "../../core/outcome-map.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  ActResult,
  PlanPart,
  PlanResult,
  Submission,
  SubmitResult,
} from "../../ports/conducting.ts";
import type { Connection } from "./connection.ts";
import type { Recorder } from "./records.ts";
import { type BatchRow, SELECT_BATCH, toSnapshot } from "./rows.ts";

export class Conducting {
  readonly #clock: Clock;
  readonly #recorder: Recorder;
  readonly #findById: StatementSync;
  readonly #findByKey: StatementSync;
  readonly #findUnfinished: StatementSync;
  readonly #insertBatch: StatementSync;
  readonly #insertStep: StatementSync;
  readonly #startBatch: StatementSync;
  readonly #sealBatch: StatementSync;
  readonly #dropKeys: StatementSync;
  readonly #dropPlan: readonly StatementSync[];
  readonly #findPart: StatementSync;
  readonly #insertChunk: StatementSync;
  readonly #insertManifest: StatementSync;
  readonly #insertKey: StatementSync;
  readonly #findKey: StatementSync;
  readonly #growStep: StatementSync;
  readonly #runStep: StatementSync;
  readonly #raiseFence: StatementSync;

  constructor(connection: Connection, clock: Clock, recorder: Recorder) {
    this.#clock = clock;
    this.#recorder = recorder;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findById = prepare(`${SELECT_BATCH} WHERE b.id = ?`);
    this.#findByKey = prepare(`${SELECT_BATCH} WHERE b.pipeline = ? AND b.submit_key = ?`);
    this.#findUnfinished = prepare(
      `${SELECT_BATCH} WHERE b.pipeline = ? AND b.lane = ? AND b.submit_key IS NULL
       AND b.input_hash = ? AND b.ended_at IS NULL ORDER BY b.num DESC LIMIT 1`,
    );
    this.#insertBatch = prepare(
      `INSERT INTO batch (id, pipeline, version, lane, submit_key, input, input_hash, settings,
         state, open, seal_deadline_at, submitted_at, record_hash)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'submitted', ?, ?, ?, ?)`,
    );
    this.#insertStep = prepare(
      "INSERT INTO step (batch, step, pipeline, version) VALUES (?, 0, ?, ?)",
    );
    this.#startBatch = prepare("UPDATE batch SET started_at = ? WHERE num = ?");
    this.#sealBatch = prepare("UPDATE batch SET sealed = 1 WHERE num = ?");
    this.#dropKeys = prepare("DELETE FROM item_key WHERE batch = ?");
    this.#dropPlan = [
      "DELETE FROM chunk WHERE batch = ?",
      "DELETE FROM manifest WHERE batch = ?",
      "DELETE FROM item_key WHERE batch = ?",
      `UPDATE step SET chunks = 0, next_chunk = 0, slice_cursor = NULL, last_part = NULL, planned = 0, pending = 0
       WHERE batch = ?`,
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
         slice_cursor = ?, last_part = ?, leasable_at = iif(running = 1, 0, leasable_at)
       WHERE batch = ? AND step = ?`,
    );
    this.#raiseFence = prepare(
      "UPDATE step SET slice_fence = slice_fence + 1 WHERE batch = ? AND step = 0",
    );
    this.#runStep = prepare(
      `UPDATE step SET running = 1, leasable_at = iif(next_chunk < chunks, 0, NULL)
       WHERE batch = ? AND step = 0`,
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
    const now = this.#clock.wallMs();
    const needsProducer = open || input === null;
    const { lastInsertRowid } = this.#insertBatch.run(
      id,
      pipeline,
      version,
      lane,
      key,
      input,
      inputHash,
      canonicalize({ ...submission.settings }),
      open ? 1 : 0,
      needsProducer ? now + submission.sealWithinMs : null,
      now,
      CHAIN_START.hash,
    );
    const num = Number(lastInsertRowid);
    this.#insertStep.run(num, pipeline, version);
    this.#recorder.record(num, {
      type: "batch.submitted",
      data: { pipeline, version, lane, key, inputHash },
    });
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
    const { num, state } = batch;
    if (state === "submitted") {
      this.#recorder.move(num, "start_slicing");
      this.#startBatch.run(this.#clock.wallMs(), num);
      this.#recorder.record(num, { type: "batch.started", data: {} });
      this.#recorder.record(num, { type: "slicing.started", data: {} });
    } else if (state !== "slicing") {
      return this.#movedOn(batch);
    } else if (afresh) {
      for (const drop of this.#dropPlan) drop.run(num);
    }
    this.#raiseFence.run(num);
    return this.#done(num);
  }

  plan(batch: BatchRow, part: PlanPart): PlanResult {
    const { num, state } = batch;
    const slices = state === "slicing" && batch.slice_fence === part.fence;
    const accepts = slices || (state === "running" && batch.sealed === 0);
    if (!accepts || batch.chunks !== part.afterChunks) {
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
    return { kind: "planned", chunks: part.afterChunks + part.chunks.length };
  }

  /** Whether the part was added before: as the newest one, or, with several producers, further back. */
  #isThere({ num, last_part }: BatchRow, { part, step, afterChunks }: PlanPart): boolean {
    const found = this.#findPart.get(num, step, afterChunks) as { part: string } | undefined;
    return last_part === part || found?.part === part;
  }

  /** Finds a key that is there twice before anything of the part is written. */
  #claimKeys(batch: BatchRow, part: PlanPart): PlanResult | null {
    const claimed = new Map<string, number>();
    let item = batch.planned;
    for (const chunk of part.chunks) {
      for (const [position, key] of (chunk.keys ?? []).entries()) {
        if (key === null) continue;
        const secondItem = item + position;
        const known = this.#findKey.get(batch.num, key) as { item: number } | undefined;
        const firstItem = known?.item ?? claimed.get(key);
        if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
        claimed.set(key, secondItem);
      }
      item += chunk.items;
    }
    for (const [key, index] of claimed) this.#insertKey.run(batch.num, key, index);
    return null;
  }

  finishSlicing(batch: BatchRow, chunks: number, fence: number): ActResult {
    const { num } = batch;
    const slices = batch.state === "slicing" && batch.slice_fence === fence;
    if (!slices || batch.chunks !== chunks) return this.#movedOn(batch);
    this.#recorder.move(num, "finish_slicing");
    this.#runStep.run(num);
    this.#recorder.record(num, {
      type: "slicing.finished",
      data: { items: batch.planned, chunks },
    });
    if (batch.open === 0) this.#close(num);
    this.#recorder.endIfFinished(num);
    return this.#done(num);
  }

  seal(batch: BatchRow): ActResult {
    const { num } = batch;
    if (batch.sealed === 1) return this.#done(num);
    if (batch.state !== "running") return this.#movedOn(batch);
    this.#close(num);
    this.#recorder.record(num, {
      type: "batch.sealed",
      data: { items: batch.planned, chunks: batch.chunks },
    });
    this.#recorder.endIfFinished(num);
    return this.#done(num);
  }

  #close(num: number): void {
    this.#sealBatch.run(num);
    this.#dropKeys.run(num);
  }

  fail(batch: BatchRow, reason: EndReason): ActResult {
    if (isEnded(batch.state)) return this.#movedOn(batch);
    this.#recorder.endEarly(batch.num, "fail", reason);
    return this.#done(batch.num);
  }

  #snapshot(num: number): ReturnType<typeof toSnapshot> {
    return toSnapshot(this.#recorder.get(num));
  }

  #done(num: number): ActResult {
    return { kind: "done", batch: this.#snapshot(num) };
  }

  #movedOn(batch: BatchRow): ActResult & { kind: "moved_on" } {
    return { kind: "moved_on", batch: toSnapshot(batch) };
  }
}
