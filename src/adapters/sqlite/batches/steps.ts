/** A batch's steps in SQL: which one runs, and when it has something to lease. */
import type { StatementSync } from "node:sqlite";
import type { StepSettings } from "../../../core/batch/step.ts";
import type { Connection } from "../connection/connection.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";

/** How many fresh chunks may be leased: the canary comes first. */
export const FRESH_LIMIT = "min(chunks, coalesce(canary_chunks, chunks))";

/** When the updated step has something to lease. */
const LEASABLE_AT = `iif(next_chunk < ${FRESH_LIMIT}, 0, (
  SELECT min(c.due_at) FROM chunk c INDEXED BY chunk_due
  WHERE c.state = 'waiting' AND c.batch = step.batch AND c.step = step.step))`;

export class Steps {
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #plan: StatementSync;
  readonly #setSince: StatementSync;
  readonly #setCurrent: StatementSync;
  readonly #adjust: StatementSync;
  readonly #share: StatementSync;
  readonly #halt: StatementSync;
  readonly #offer: StatementSync;
  readonly #passCanary: StatementSync;
  readonly #hasUnsettled: StatementSync;
  readonly #hasLeased: StatementSync;
  readonly #forgetWatch: StatementSync;
  readonly #countChunks: StatementSync;
  readonly #selectRange: StatementSync;

  constructor(connection: Connection) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#insert = prepare(
      `INSERT INTO step (batch, step, pipeline, version, tenant, name)
       SELECT num, ?, pipeline, version, tenant, ? FROM batch WHERE num = ?`,
    );
    this.#find = prepare("SELECT sliced, pending FROM step WHERE batch = ? AND step = ?");
    this.#plan = prepare(
      // A fence higher than any before: a slicer of an earlier step cannot finish this one.
      `UPDATE step SET base_chunks = chunks, sliced = 0, slice_cursor = NULL,
         slice_fence = (SELECT max(o.slice_fence) + 1 FROM step o WHERE o.batch = step.batch),
         watch_previous = NULL, watch_stalls = 0 WHERE batch = ? AND step = ?`,
    );
    this.#setSince = prepare(
      // The step already has everything that it was planned from before.
      `UPDATE batch SET since_drive = 1 + s.sliced_drive FROM step s
       WHERE s.batch = batch.num AND batch.num = ? AND s.step = ?`,
    );
    this.#setCurrent = prepare("UPDATE batch SET step = ? WHERE num = ?");
    this.#adjust = prepare(
      `UPDATE step SET running = iif(step.step = b.step AND b.state = 'running'
           AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL, 1, 0),
         leasable_at = ${LEASABLE_AT}
       FROM (SELECT * FROM batch WHERE num = ?) AS b WHERE step.batch = b.num AND (
         step.step = b.step OR step.running = 1)`,
    );
    // A lease finds a tenant's steps through its share.
    this.#share = prepare(
      `INSERT INTO share (pipeline, tenant)
       SELECT pipeline, tenant FROM step WHERE batch = ? AND running = 1
       ON CONFLICT DO NOTHING`,
    );
    this.#halt = prepare("UPDATE step SET running = 0, leasable_at = NULL WHERE batch = ?");
    this.#offer = prepare(
      `UPDATE step SET leasable_at = ${LEASABLE_AT} WHERE batch = ? AND step = ?`,
    );
    this.#passCanary = prepare("UPDATE step SET canary_chunks = NULL WHERE batch = ? AND step = ?");
    this.#hasUnsettled = prepare(
      `SELECT 1 FROM chunk WHERE batch = ? AND step = ? AND chunk < ? AND state <> 'settled' LIMIT 1`,
    );
    this.#hasLeased = prepare(
      `SELECT 1 FROM chunk INDEXED BY chunk_lease WHERE state = 'leased' AND batch = ? LIMIT 1`,
    );
    this.#countChunks = prepare("SELECT chunks FROM step WHERE batch = ? AND step = ?");
    this.#selectRange = prepare(
      "SELECT start, finish FROM chunk WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#forgetWatch = prepare(
      "UPDATE step SET watch_previous = NULL, watch_stalls = 0 WHERE batch = ?",
    );
  }

  add(num: number, step: number, { name }: StepSettings): void {
    this.#insert.run(step, name, num);
  }

  /** Undefined when the step has not begun. */
  find(
    num: number,
    step: number,
  ): { readonly sliced: number; readonly pending: number } | undefined {
    return this.#find.get(num, step) as { sliced: number; pending: number } | undefined;
  }

  /** Makes this the batch's current step. */
  setCurrent(num: number, step: number): void {
    this.#setCurrent.run(step, num);
  }

  /** Prepares the step for planning, after the chunks of earlier drives. */
  beginPlan(num: number, step: number): void {
    this.#plan.run(num, step);
    this.#setSince.run(num, step);
  }

  /** Sets whether the current step may be leased from, by its batch's state and pauses. */
  adjustRunning(num: number): void {
    this.#adjust.run(num);
    this.#share.run(num);
  }

  /** No chunk of the batch may be leased any more. */
  halt(num: number): void {
    this.#halt.run(num);
  }

  /** Computes again when the step has something to lease. */
  offerAgain(num: number, step: number): void {
    this.#offer.run(num, step);
  }

  passCanary(num: number, step: number): void {
    this.#passCanary.run(num, step);
    this.offerAgain(num, step);
  }

  /** Whether some of the step's first chunks are not settled yet. */
  hasUnsettled(num: number, step: number, chunks: number): boolean {
    return this.#hasUnsettled.get(num, step, chunks) !== undefined;
  }

  /** Reads all leases of the store: as many as workers hold chunks. */
  hasLeases(num: number): boolean {
    return this.#hasLeased.get(num) !== undefined;
  }

  /**
   * The chunk that contains an item. Chunks are in the order of their items and may differ in size.
   */
  findChunk(num: number, step: number, item: number): number | null {
    const { chunks } = (this.#countChunks.get(num, step) as { chunks: number } | undefined) ?? {
      chunks: 0,
    };
    let low = 0;
    let high = chunks - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const range = this.#selectRange.get(num, step, middle) as
        | { start: number; finish: number }
        | undefined;
      if (range === undefined) return null;
      if (item < range.start) high = middle - 1;
      else if (item >= range.finish) low = middle + 1;
      else return middle;
    }
    return null;
  }

  forgetWatch(num: number): void {
    this.#forgetWatch.run(num);
  }
}
