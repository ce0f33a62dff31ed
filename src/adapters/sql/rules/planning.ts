/** Submitting, slicing, sealing and ending. */
import { type EndReason, isEnded } from "../../../core/batch/batch.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { canonicalize, type Json } from "../../../core/base/canonical-json.ts";
import { CHAIN_START } from "../../../core/ledger/chain.ts";
import { computeCanaryChunks, type StepSettings } from "../../../core/batch/step.ts";
import {
  type ActResult,
  type PlanPart,
  type PlanResult,
  type Submission,
  type SubmitResult,
  describeSubmitted,
} from "../../../ports/store/conductor-store.ts";
import type { FinishResult } from "../../../ports/store/plan-inline.ts";
import { fitsPlan, gatherKeys, isOpen } from "../plan-part.ts";
import { type BatchRow, readSettings, toSnapshot } from "../rows.ts";
import { type Act, answered, together } from "../dialect/act.ts";
import type { BatchLifecycle } from "./batch-lifecycle.ts";
import { SELECT_BATCH } from "./columns.ts";
import type { Lanes } from "./lanes.ts";
import type { RecordLog } from "./records.ts";
import { statement } from "../dialect/statement.ts";
import type { Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** A chunk of a part, with its number and the item at which it starts. */
export interface NewChunk {
  readonly chunk: number;
  readonly start: number;
  readonly items: number;
  readonly locator: string | null;
  readonly manifest: Uint8Array | null;
}

/** Writes the rows of chunks and their manifests; each store has its own fastest way. */
export type WriteChunks = (
  tx: RuleTransaction,
  place: { readonly batch: number; readonly step: number; readonly part: string },
  chunks: readonly NewChunk[],
) => void;

export interface PlanningParts {
  readonly records: RecordLog;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
  readonly writeChunks: WriteChunks;
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
     chunks = base_chunks, next_chunk = /*sqlite min*//*postgres least*/(next_chunk, base_chunks), slice_cursor = NULL,
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
const INSERT_KEYS = statement(
  `INSERT INTO item_key (batch, key, item)
   /*sqlite VALUES ($1, $2, $3)*/
   /*postgres SELECT $1, n.key, n.item FROM unnest($2::text[], $3::bigint[]) AS n(key, item)*/`,
);
const FIND_KEYS = statement(
  `SELECT key, item FROM item_key
   WHERE batch = $1 AND key /*sqlite = $2*//*postgres = ANY($2::text[])*/`,
);
const GROW_STEP = statement(
  `UPDATE step SET chunks = chunks + $3, planned = planned + $4, pending = pending + $4,
     slice_cursor = $5, last_part = $6,
     leasable_at = CASE WHEN running = 1 AND next_chunk < coalesce(canary_chunks, next_chunk + 1)
       THEN 0 ELSE leasable_at END
   WHERE batch = $1 AND step = $2`,
);
const SET_FENCE = statement("UPDATE step SET slice_fence = $3 WHERE batch = $1 AND step = $2");
const FINISH_PLAN = statement(
  `UPDATE step SET sliced = 1, sliced_drive = (SELECT drive FROM batch WHERE num = step.batch),
     canary_chunks = CASE WHEN base_chunks > 0 THEN canary_chunks ELSE $3 END
   WHERE batch = $1 AND step = $2`,
);

export class Planning {
  readonly #parts: PlanningParts;

  constructor(parts: PlanningParts) {
    this.#parts = parts;
  }

  /** The batch's row, or undefined. */
  look(tx: RuleTransaction, id: string): Act<BatchRow | undefined> {
    return tx.get<BatchRow>(FIND_BY_ID, id);
  }

  /** `place`: where it is looked for, for the error. */
  *find(tx: RuleTransaction, id: string, place: string): Act<BatchRow> {
    const row = yield* this.look(tx, id);
    if (row === undefined) throw refuseUnknown(id, place);
    return row;
  }

  /** The same, locked: no other transaction changes it until the end. */
  *lock(tx: RuleTransaction, id: string, place: string): Act<BatchRow> {
    if (!tx.isRemote) return yield* this.find(tx, id, place);
    // Two statements: a row that is read together with the lock may be older than what the lock
    // waited for.
    const [, row] = yield* together(tx.run(LOCK_BY_ID, id), this.find(tx, id, place));
    return row;
  }

  *submit(tx: RuleTransaction, submission: Submission): Act<SubmitResult> {
    const { lane } = submission;
    const { records, lanes, steps, lifecycle } = this.#parts;
    const [, same, place] = yield* together(
      tx.lock("lane", lane),
      this.#findSame(tx, submission),
      lanes.computeBack(tx, lane),
    );
    if (same !== undefined) {
      const taken = same.input_hash !== submission.inputHash;
      return { kind: taken ? "key_taken" : "existing", batch: toSnapshot(same) };
    }
    const num = yield* this.#insert(tx, submission, place);
    steps.add(tx, num, 0, submission.settings.steps[0] as StepSettings);
    records.begin(tx, num, submission.id);
    yield* records.record(tx, num, describeSubmitted(submission));
    yield* lifecycle.startNextInLane(tx, lane);
    return { kind: "created", batch: yield* this.#snapshot(tx, num) };
  }

  *#insert(tx: RuleTransaction, submission: Submission, place: number): Act<number> {
    const { id, pipeline, version, lane, key, input, inputHash, open, settings } = submission;
    const now = tx.wallMs;
    const needsProducer = open || input === null;
    const { caps, maxRunMs = null, weight = 1 } = settings;
    const row = yield* tx.get(
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

  *#findSame(tx: RuleTransaction, submission: Submission): Act<BatchRow | undefined> {
    const { id, pipeline, lane, key, inputHash, resume } = submission;
    const [repeated, same] = yield* together(
      this.look(tx, id),
      key !== null
        ? tx.get<BatchRow>(FIND_BY_KEY, pipeline, key)
        : resume
          ? tx.get<BatchRow>(FIND_UNFINISHED, pipeline, lane, inputHash)
          : answered(undefined),
    );
    return repeated ?? same;
  }

  *startSlicing(tx: RuleTransaction, batch: BatchRow, afresh: boolean): Act<ActResult> {
    const { num, step } = batch;
    const { records } = this.#parts;
    if (batch.state !== "submitted" && batch.state !== "slicing") return this.#movedOn(batch);
    const fence = batch.slice_fence + 1;
    tx.send(SET_FENCE, num, step, fence);
    tx.send(TOUCH, num, Math.floor(tx.now));
    if (batch.state === "submitted") {
      const state = records.move(tx, batch, "start_slicing");
      yield* records.record(tx, num, { type: "slicing.started", data: { step } });
      return { kind: "done", batch: { ...toSnapshot(batch), state, sliceFence: fence } };
    }
    if (afresh) {
      for (const drop of DROP_PLAN) tx.send(drop, num, step);
      tx.send(DROP_KEYS, num);
    }
    return yield* this.#done(tx, num);
  }

  *plan(tx: RuleTransaction, batch: BatchRow, part: PlanPart): Act<PlanResult> {
    const { num } = batch;
    if (!fitsPlan(batch, part)) {
      return (yield* this.#isThere(tx, batch, part))
        ? { kind: "planned", chunks: part.afterChunks + part.chunks.length }
        : this.#movedOn(batch);
    }
    const duplicate = yield* this.#claimKeys(tx, batch, part);
    if (duplicate !== null) return duplicate;
    const { chunks, cursor, part: name, step } = part;
    let start = batch.planned;
    const rows = chunks.map(({ items: size, locator, manifest }, offset): NewChunk => {
      const row = { chunk: part.afterChunks + offset, start, items: size, locator, manifest };
      start += size;
      return row;
    });
    this.#parts.writeChunks(tx, { batch: num, step, part: name }, rows);
    const items = start - batch.planned;
    tx.send(GROW_STEP, num, step, chunks.length, items, cursor, name);
    tx.send(TOUCH, num, Math.floor(tx.now));
    if (batch.state === "running") tx.notify();
    return { kind: "planned", chunks: part.afterChunks + part.chunks.length };
  }

  /**
   * Whether the part was added before: as the newest one or, with several producers, further back.
   */
  *#isThere(
    tx: RuleTransaction,
    { num, last_part }: BatchRow,
    { part, step, afterChunks }: PlanPart,
  ): Act<boolean> {
    if (last_part === part) return true;
    const found = yield* tx.get<{ readonly part: string }>(FIND_PART, num, step, afterChunks);
    return found?.part === part;
  }

  /** Finds a duplicate key before any of the part is written. */
  *#claimKeys(
    tx: RuleTransaction,
    { num, planned }: BatchRow,
    part: PlanPart,
  ): Act<PlanResult | null> {
    const all = part.chunks.flatMap(({ keys }) => (keys ?? []).filter((key) => key !== null));
    if (all.length === 0) return null;
    type Row = { readonly key: string; readonly item: number };
    const rows = yield* tx.allEach<Row>(FIND_KEYS, [num], all);
    const known = new Map(rows.map(({ key, item }) => [key, item]));
    const keys = gatherKeys(part, planned, (key) => known.get(key));
    if (!(keys instanceof Map)) return keys;
    tx.sendEach(INSERT_KEYS, [num], [...keys.keys()], [...keys.values()]);
    return null;
  }

  *finishSlicing(
    tx: RuleTransaction,
    batch: BatchRow,
    chunks: number,
    fence: number,
  ): Act<ActResult> {
    const finished = yield* this.finishPlan(tx, batch, chunks, fence);
    return finished.kind === "done" ? yield* this.#done(tx, batch.num) : finished;
  }

  /** The same, for a caller that does not need the batch as it is afterwards. */
  *finishPlan(
    tx: RuleTransaction,
    batch: BatchRow,
    chunks: number,
    fence: number,
  ): Act<FinishResult> {
    const { num, step, active } = batch;
    const { records, steps, lifecycle } = this.#parts;
    const slices = batch.state === "slicing" && batch.slice_fence === fence;
    if (!slices || batch.chunks !== chunks) return this.#movedOn(batch);
    yield* records.record(tx, num, {
      type: "slicing.finished",
      data: { step, items: batch.planned, chunks },
    });
    const { canary, chunkSize } = readSettings(batch).steps[step] as StepSettings;
    const canaryChunks = canary === null ? null : computeCanaryChunks(canary, chunkSize);
    tx.send(FINISH_PLAN, num, step, canaryChunks);
    if (batch.open === 0 || step > 0) this.#close(tx, num);
    records.move(tx, batch, active === 1 ? "finish_slicing" : "await_turn");
    yield* steps.adjustRunning(tx, num);
    yield* lifecycle.advanceBatch(tx, num);
    return { kind: "done" };
  }

  *seal(tx: RuleTransaction, batch: BatchRow): Act<ActResult> {
    const { num } = batch;
    if (batch.sealed === 1) return yield* this.#done(tx, num);
    if (!isOpen(batch.state)) return this.#movedOn(batch);
    this.#close(tx, num);
    yield* this.#parts.records.record(tx, num, {
      type: "batch.sealed",
      data: { items: batch.planned, chunks: batch.chunks },
    });
    yield* this.#parts.lifecycle.advanceBatch(tx, num);
    return yield* this.#done(tx, num);
  }

  #close(tx: RuleTransaction, num: number): void {
    tx.send(SEAL_BATCH, num);
    tx.send(DROP_KEYS, num);
  }

  *fail(tx: RuleTransaction, batch: BatchRow, reason: EndReason): Act<ActResult> {
    if (isEnded(batch.state)) return this.#movedOn(batch);
    yield* this.#parts.lifecycle.endEarly(tx, batch, "fail", reason);
    return yield* this.#done(tx, batch.num);
  }

  *#snapshot(tx: RuleTransaction, num: number): Act<ReturnType<typeof toSnapshot>> {
    return toSnapshot(yield* this.#parts.records.get(tx, num));
  }

  *#done(tx: RuleTransaction, num: number): Act<ActResult> {
    return { kind: "done", batch: yield* this.#snapshot(tx, num) };
  }

  #movedOn(batch: BatchRow): ActResult & { kind: "moved_on" } {
    return { kind: "moved_on", batch: toSnapshot(batch) };
  }
}

function refuseUnknown(id: string, place: string): SluiceError {
  return new SluiceError("NOT_FOUND", `there is no batch ${id} in ${place}`, {
    kind: "batch",
    hint: "`sluice list` shows all batches.",
  });
}
