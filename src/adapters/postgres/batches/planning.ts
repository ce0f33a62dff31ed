/** Submitting, slicing, sealing and ending in SQL. Every method runs inside the caller's transaction. */
import { type EndReason, isEnded } from "../../../core/batch/batch.ts";
import { canonicalize, type Json } from "../../../core/base/canonical-json.ts";
import { CHAIN_START } from "../../../core/ledger/chain.ts";
import { countMapBytes, createOutcomeMap } from "../../../core/items/outcome-map.ts";
import { computeCanaryChunks, type StepSettings } from "../../../core/batch/step.ts";
import {
  type ActResult,
  type PlanPart,
  type PlanResult,
  type Submission,
  type SubmitResult,
  describeSubmitted,
} from "../../../ports/store/conductor-store.ts";
import { fitsPlan, gatherKeys, isOpen } from "../../sql/plan-part.ts";
import { type BatchRow, readSettings, toSnapshot } from "../../sql/rows.ts";
import type { Lanes } from "./lanes.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import type { RecordLog } from "../ledger/records.ts";
import { SELECT_BATCH } from "../connection/rows.ts";
import { statement } from "../connection/statement.ts";
import type { Steps } from "./steps.ts";
import type { Transaction } from "../connection/transaction.ts";

export interface ConductingParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
}

const LOCK_BY_ID = statement("SELECT num FROM batch WHERE id = $1 FOR NO KEY UPDATE");
const FIND_BY_ID = statement(`${SELECT_BATCH} WHERE b.id = $1`);
const FIND_BY_KEY = statement(`${SELECT_BATCH} WHERE b.pipeline = $1 AND b.submit_key = $2`);
const FIND_UNFINISHED = statement(
  `${SELECT_BATCH} WHERE b.pipeline = $1 AND b.lane = $2 AND b.submit_key IS NULL
   AND b.input_hash = $3 AND b.ended_at IS NULL ORDER BY b.num DESC LIMIT 1`,
);
const INSERT_BATCH = statement(
  `INSERT INTO batch (id, pipeline, version, lane, tenant, weight, submit_key, input,
     input_hash, settings, caps, max_run_ms, state, place, open, seal_deadline_at, deadline_at,
     submitted_at, activity_at, record_hash, item_ledger, keep_ms, keep_evidence_ms)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'submitted', $13, $14, $15, $16, $17,
     $18, $19, $20, $21, $22) RETURNING num`,
);
const TOUCH = statement("UPDATE batch SET activity_at = $2 WHERE num = $1");
const SEAL_BATCH = statement("UPDATE batch SET sealed = 1 WHERE num = $1");
const DROP_KEYS = statement("DELETE FROM item_key WHERE batch = $1");
const DROP_PLAN = [
  // Chunks of earlier drives stay; none of the others has run.
  `UPDATE step SET planned = planned - fresh.items, pending = pending - fresh.items,
     chunks = base_chunks, next_chunk = least(next_chunk, base_chunks), slice_cursor = NULL,
     last_part = NULL
   FROM (SELECT coalesce(sum(c.finish - c.start), 0) AS items FROM step s
         JOIN chunk c ON c.batch = s.batch AND c.step = s.step AND c.chunk >= s.base_chunks
         WHERE s.batch = $1 AND s.step = $2) AS fresh
   WHERE batch = $1 AND step = $2`,
  `DELETE FROM chunk WHERE batch = $1 AND step = $2 AND chunk >= (
     SELECT chunks FROM step WHERE batch = $1 AND step = $2)`,
  `DELETE FROM manifest WHERE batch = $1 AND step = $2 AND chunk >= (
     SELECT chunks FROM step WHERE batch = $1 AND step = $2)`,
].map(statement);
const FIND_PART = statement(
  "SELECT part FROM manifest WHERE batch = $1 AND step = $2 AND chunk = $3",
);
// No item has an outcome yet: one map serves all, and each chunk gets a prefix of it.
const INSERT_CHUNKS = statement(
  `INSERT INTO chunk (batch, step, chunk, start, finish, outcomes, locator)
   SELECT $1, $2, n.chunk, n.start, n.finish, substring($6::bytea FROM 1 FOR n.bytes), n.locator
   FROM unnest($3::int[], $4::bigint[], $5::bigint[], $7::int[], $8::text[])
     AS n(chunk, start, finish, bytes, locator)`,
);
// All bytes are sent as one value, in binary: a list of byte strings would be sent as text.
const INSERT_MANIFESTS = statement(
  `INSERT INTO manifest (batch, step, chunk, part, items)
   SELECT $1, $2, n.chunk, $3, substring($6::bytea FROM n.first FOR n.bytes)
   FROM unnest($4::int[], $5::int[], $7::int[]) AS n(chunk, first, bytes)`,
);
const INSERT_KEYS = statement(
  `INSERT INTO item_key (batch, key, item)
   SELECT $1, n.key, n.item FROM unnest($2::text[], $3::bigint[]) AS n(key, item)`,
);
const FIND_KEYS = statement(
  "SELECT key, item FROM item_key WHERE batch = $1 AND key = ANY($2::text[])",
);
const GROW_STEP = statement(
  `UPDATE step SET chunks = chunks + $3, planned = planned + $4, pending = pending + $4,
     slice_cursor = $5, last_part = $6,
     leasable_at = CASE WHEN running = 1 AND next_chunk < coalesce(canary_chunks, next_chunk + 1)
       THEN 0 ELSE leasable_at END
   WHERE batch = $1 AND step = $2`,
);
const RAISE_FENCE = statement(
  "UPDATE step SET slice_fence = slice_fence + 1 WHERE batch = $1 AND step = $2",
);
const FINISH_PLAN = statement(
  `UPDATE step SET sliced = 1, sliced_drive = (SELECT drive FROM batch WHERE num = step.batch),
     canary_chunks = CASE WHEN base_chunks > 0 THEN canary_chunks ELSE $3 END
   WHERE batch = $1 AND step = $2`,
);

export class Planning {
  readonly #parts: ConductingParts;

  constructor(parts: ConductingParts) {
    this.#parts = parts;
  }

  /** The batch's row, or undefined. */
  async find(tx: Transaction, id: string): Promise<BatchRow | undefined> {
    return tx.get<BatchRow>(FIND_BY_ID, id);
  }

  /** The same, locked: no other transaction changes it until the end. */
  async lock(tx: Transaction, id: string): Promise<BatchRow | undefined> {
    // Two statements: a row that is read together with the lock may be older than what the lock
    // waited for.
    const [, row] = await Promise.all([tx.run(LOCK_BY_ID, id), this.find(tx, id)]);
    return row;
  }

  async submit(tx: Transaction, submission: Submission): Promise<SubmitResult> {
    const { lane } = submission;
    const { records, lanes, steps, lifecycle } = this.#parts;
    const [, same, place] = await Promise.all([
      tx.lock("lane", lane),
      this.#findSame(tx, submission),
      lanes.computeBack(tx, lane),
    ]);
    if (same !== undefined) {
      const taken = same.input_hash !== submission.inputHash;
      return { kind: taken ? "key_taken" : "existing", batch: toSnapshot(same) };
    }
    const num = await this.#insert(tx, submission, place);
    await steps.add(tx, num, 0, submission.settings.steps[0] as StepSettings);
    records.begin(tx, num, submission.id);
    await records.record(tx, num, describeSubmitted(submission));
    await lifecycle.startNextInLane(tx, lane);
    return { kind: "created", batch: await this.#snapshot(tx, num) };
  }

  async #insert(tx: Transaction, submission: Submission, place: number): Promise<number> {
    const { id, pipeline, version, lane, key, input, inputHash, open, settings } = submission;
    const now = tx.wallMs;
    const needsProducer = open || input === null;
    const { caps, maxRunMs = null, weight = 1 } = settings;
    const row = await tx.get(
      INSERT_BATCH,
      id,
      pipeline,
      version,
      lane,
      submission.tenant ?? lane,
      weight,
      key,
      input,
      inputHash,
      canonicalize(settings as unknown as Json),
      caps === undefined ? null : canonicalize(caps as unknown as Json),
      maxRunMs,
      place,
      open ? 1 : 0,
      needsProducer ? now + submission.sealWithinMs : null,
      submission.deadlineAt,
      now,
      Math.floor(tx.now),
      CHAIN_START.hash,
      settings.ledger?.item === true ? 1 : 0,
      settings.retention?.keepMs ?? null,
      settings.retention?.keepEvidenceMs ?? null,
    );
    return (row as { num: number }).num;
  }

  async #findSame(tx: Transaction, submission: Submission): Promise<BatchRow | undefined> {
    const { id, pipeline, lane, key, inputHash, resume } = submission;
    const [repeated, same] = await Promise.all([
      this.find(tx, id),
      key !== null
        ? tx.get<BatchRow>(FIND_BY_KEY, pipeline, key)
        : resume
          ? tx.get<BatchRow>(FIND_UNFINISHED, pipeline, lane, inputHash)
          : undefined,
    ]);
    return repeated ?? same;
  }

  async startSlicing(tx: Transaction, batch: BatchRow, afresh: boolean): Promise<ActResult> {
    const { num, state, step } = batch;
    const { records } = this.#parts;
    if (state === "submitted") {
      await records.move(tx, num, "start_slicing");
      await records.record(tx, num, { type: "slicing.started", data: { step } });
    } else if (state !== "slicing") {
      return this.#movedOn(batch);
    } else if (afresh) {
      for (const drop of DROP_PLAN) tx.send(drop, num, step);
      tx.send(DROP_KEYS, num);
    }
    tx.send(RAISE_FENCE, num, step);
    tx.send(TOUCH, num, Math.floor(tx.now));
    return this.#done(tx, num);
  }

  async plan(tx: Transaction, batch: BatchRow, part: PlanPart): Promise<PlanResult> {
    const { num } = batch;
    if (!fitsPlan(batch, part)) {
      return (await this.#isThere(tx, batch, part))
        ? { kind: "planned", chunks: part.afterChunks + part.chunks.length }
        : this.#movedOn(batch);
    }
    const duplicate = await this.#claimKeys(tx, batch, part);
    if (duplicate !== null) return duplicate;
    const items = this.#insertChunks(tx, batch, part);
    this.#insertManifests(tx, batch, part);
    const { chunks, cursor, part: name, step } = part;
    tx.send(GROW_STEP, num, step, chunks.length, items, cursor, name);
    tx.send(TOUCH, num, Math.floor(tx.now));
    if (batch.state === "running") tx.notify();
    return { kind: "planned", chunks: part.afterChunks + part.chunks.length };
  }

  /** Returns how many items they have. */
  #insertChunks(
    tx: Transaction,
    { num, planned }: BatchRow,
    { step, afterChunks, chunks }: PlanPart,
  ): number {
    const bounds = [planned];
    for (const { items } of chunks) bounds.push((bounds.at(-1) as number) + items);
    tx.send(
      INSERT_CHUNKS,
      num,
      step,
      chunks.map((_chunk, offset) => afterChunks + offset),
      bounds.slice(0, -1),
      bounds.slice(1),
      createOutcomeMap(Math.max(...chunks.map(({ items }) => items))),
      chunks.map(({ items }) => countMapBytes(items)),
      chunks.map(({ locator }) => locator),
    );
    return (bounds.at(-1) as number) - planned;
  }

  #insertManifests(
    tx: Transaction,
    { num }: BatchRow,
    { step, afterChunks, chunks, part }: PlanPart,
  ): void {
    const manifests = chunks.flatMap(({ manifest }, offset) =>
      manifest === null ? [] : [{ chunk: afterChunks + offset, manifest }],
    );
    if (manifests.length === 0) return;
    const sizes = manifests.map(({ manifest }) => manifest.byteLength);
    let next = 1;
    tx.send(
      INSERT_MANIFESTS,
      num,
      step,
      part,
      manifests.map(({ chunk }) => chunk),
      sizes.map((size) => (next += size) - size),
      Buffer.concat(manifests.map(({ manifest }) => manifest)),
      sizes,
    );
  }

  /**
   * Whether the part was added before: as the newest one or, with several producers, further back.
   */
  async #isThere(
    tx: Transaction,
    { num, last_part }: BatchRow,
    { part, step, afterChunks }: PlanPart,
  ): Promise<boolean> {
    if (last_part === part) return true;
    const found = await tx.get<{ readonly part: string }>(FIND_PART, num, step, afterChunks);
    return found?.part === part;
  }

  /** Finds a duplicate key before any of the part is written. */
  async #claimKeys(
    tx: Transaction,
    { num, planned }: BatchRow,
    part: PlanPart,
  ): Promise<PlanResult | null> {
    const all = part.chunks.flatMap(({ keys }) => (keys ?? []).filter((key) => key !== null));
    if (all.length === 0) return null;
    const rows = await tx.all<{ readonly key: string; readonly item: number }>(FIND_KEYS, num, all);
    const known = new Map(rows.map(({ key, item }) => [key, item]));
    const keys = gatherKeys(part, planned, (key) => known.get(key));
    if (!(keys instanceof Map)) return keys;
    tx.send(INSERT_KEYS, num, [...keys.keys()], [...keys.values()]);
    return null;
  }

  async finishSlicing(
    tx: Transaction,
    batch: BatchRow,
    chunks: number,
    fence: number,
  ): Promise<ActResult> {
    const { num, step, active } = batch;
    const { records, steps, lifecycle } = this.#parts;
    const slices = batch.state === "slicing" && batch.slice_fence === fence;
    if (!slices || batch.chunks !== chunks) return this.#movedOn(batch);
    await records.record(tx, num, {
      type: "slicing.finished",
      data: { step, items: batch.planned, chunks },
    });
    const { canary, chunkSize } = readSettings(batch).steps[step] as StepSettings;
    const canaryChunks = canary === null ? null : computeCanaryChunks(canary, chunkSize);
    tx.send(FINISH_PLAN, num, step, canaryChunks);
    if (batch.open === 0 || step > 0) this.#close(tx, num);
    await records.move(tx, num, active === 1 ? "finish_slicing" : "await_turn");
    await steps.adjustRunning(tx, num);
    await lifecycle.advanceBatch(tx, num);
    return this.#done(tx, num);
  }

  async seal(tx: Transaction, batch: BatchRow): Promise<ActResult> {
    const { num } = batch;
    if (batch.sealed === 1) return this.#done(tx, num);
    if (!isOpen(batch.state)) return this.#movedOn(batch);
    this.#close(tx, num);
    await this.#parts.records.record(tx, num, {
      type: "batch.sealed",
      data: { items: batch.planned, chunks: batch.chunks },
    });
    await this.#parts.lifecycle.advanceBatch(tx, num);
    return this.#done(tx, num);
  }

  #close(tx: Transaction, num: number): void {
    tx.send(SEAL_BATCH, num);
    tx.send(DROP_KEYS, num);
  }

  async fail(tx: Transaction, batch: BatchRow, reason: EndReason): Promise<ActResult> {
    if (isEnded(batch.state)) return this.#movedOn(batch);
    await this.#parts.lifecycle.endEarly(tx, batch, "fail", reason);
    return this.#done(tx, batch.num);
  }

  async #snapshot(tx: Transaction, num: number): Promise<ReturnType<typeof toSnapshot>> {
    return toSnapshot(await this.#parts.records.get(tx, num));
  }

  async #done(tx: Transaction, num: number): Promise<ActResult> {
    return { kind: "done", batch: await this.#snapshot(tx, num) };
  }

  #movedOn(batch: BatchRow): ActResult & { kind: "moved_on" } {
    return { kind: "moved_on", batch: toSnapshot(batch) };
  }
}
