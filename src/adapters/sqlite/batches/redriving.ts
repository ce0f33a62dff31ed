/** Redrives dead letters, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { invariant } from "../../../core/base/invariant.ts";
import { decideRedrive, decideRevival } from "../../../core/items/redrive.ts";
import type { TrackedItem } from "../../../core/items/tracked-item.ts";
import type { Connection } from "../connection/connection.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { RedrivenChunkRow, RedrivenItem, RevivedChunkRow } from "../../sql/redrive.ts";
import { type ItemRow, toTrackedItem } from "../../sql/rows.ts";
import { ITEM_COLUMNS } from "../connection/rows.ts";
import type { Steps } from "./steps.ts";

export class Redriving {
  readonly #steps: Steps;
  readonly #ledger: Ledger;
  readonly #findChunk: StatementSync;
  readonly #selectTracked: StatementSync;
  readonly #updateChunk: StatementSync;
  readonly #updateItem: StatementSync;
  readonly #updateStep: StatementSync;
  readonly #updateDrive: StatementSync;
  readonly #selectCancelled: StatementSync;
  readonly #selectLiving: StatementSync;
  readonly #deleteItem: StatementSync;
  readonly #forgetStart: StatementSync;
  readonly #reviveChunk: StatementSync;
  readonly #reviveSteps: StatementSync;

  constructor(connection: Connection, steps: Steps, ledger: Ledger) {
    this.#steps = steps;
    this.#ledger = ledger;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findChunk = prepare(
      `SELECT chunk, start, finish, outcomes, losses, fence,
         (SELECT b.item_ledger FROM batch b WHERE b.num = chunk.batch) AS item_ledger FROM chunk
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#selectTracked = prepare(
      `SELECT ${ITEM_COLUMNS} FROM item
       WHERE batch = ? AND step = ? AND item >= ? AND item < ? AND dead = 1 ORDER BY item`,
    );
    this.#updateChunk = prepare(
      `UPDATE chunk SET outcomes = ?, due_at = iif(state = 'waiting', min(due_at, ?), ?),
         state = 'waiting', rest_hold_up = NULL, rest_key = NULL
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#updateItem = prepare(
      `UPDATE item SET attempts = 0, deaths = 0, started = 0, dead = 0, due_at = ?,
         error_class = NULL, code = NULL, message = NULL, failed_at = NULL, drive = ?
       WHERE batch = ? AND step = ? AND item = ?`,
    );
    this.#updateStep = prepare(
      `UPDATE step SET failed = failed - ?, pending = pending + ?,
         failed_permanent = failed_permanent - ?, failed_transient = failed_transient - ?,
         failed_unexpected = failed_unexpected - ? WHERE batch = ? AND step = ?`,
    );
    this.#selectCancelled = prepare(
      `SELECT step, chunk, start, finish, outcomes, losses FROM chunk
       WHERE batch = ? AND state = 'cancelled' ORDER BY step, chunk`,
    );
    this.#selectLiving = prepare(
      `SELECT ${ITEM_COLUMNS} FROM item
       WHERE batch = ? AND step = ? AND item >= ? AND item < ? AND dead = 0 ORDER BY item`,
    );
    this.#deleteItem = prepare("DELETE FROM item WHERE batch = ? AND step = ? AND item = ?");
    this.#forgetStart = prepare(
      "UPDATE item SET started = 0 WHERE batch = ? AND step = ? AND item = ?",
    );
    this.#reviveChunk = prepare(
      `UPDATE chunk SET state = 'waiting', due_at = ?, rest_hold_up = NULL, rest_key = NULL
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#reviveSteps = prepare(
      "UPDATE step SET pending = pending + cancelled, cancelled = 0 WHERE batch = ?",
    );
    this.#updateDrive = prepare("UPDATE batch SET drive = ? WHERE num = ?");
  }

  /** Items that an early end cancelled are pending again. */
  revive(num: number, now: number): void {
    type Row = RevivedChunkRow & { readonly step: number };
    for (const row of this.#selectCancelled.all(num) as unknown as Row[]) {
      const { step, chunk, start, finish, outcomes, losses } = row;
      const rows = this.#selectLiving.all(num, step, start, finish) as unknown as ItemRow[];
      const tracked = rows.map((item) => toTrackedItem(item, start));
      const stored = { items: finish - start, outcomes, tracked, losses };
      const { track, untrack, dueAt } = decideRevival(stored, now);
      for (const index of untrack) this.#deleteItem.run(num, step, start + index);
      for (const { index } of track) this.#forgetStart.run(num, step, start + index);
      this.#reviveChunk.run(dueAt, num, step, chunk);
    }
    this.#reviveSteps.run(num);
  }

  /**
   * Opens a drive for these dead letters of one step, which come in item order; none of their
   * chunks is leased. It holds the dead letters of one chunk at a time in memory.
   */
  putBack(num: number, step: number, items: Iterable<RedrivenItem>, drive: number): void {
    let chunk: RedrivenChunkRow | null = null;
    let ofChunk: RedrivenItem[] = [];
    for (const item of items) {
      if (chunk === null || item.item >= chunk.finish) {
        if (chunk !== null) this.#putBackChunk(num, step, chunk, ofChunk, drive);
        chunk = this.#findChunkOf(num, step, item.item);
        ofChunk = [];
      }
      ofChunk.push(item);
    }
    if (chunk !== null) this.#putBackChunk(num, step, chunk, ofChunk, drive);
    this.#updateDrive.run(drive, num);
    this.#steps.offerAgain(num, step);
  }

  #putBackChunk(
    num: number,
    step: number,
    chunk: RedrivenChunkRow,
    items: readonly RedrivenItem[],
    drive: number,
  ): void {
    const rows = this.#selectTracked.all(num, step, chunk.start, chunk.finish);
    const tracked = (rows as unknown as ItemRow[]).map(
      (row): TrackedItem => toTrackedItem(row, chunk.start),
    );
    const { outcomes, losses } = chunk;
    const stored = { items: chunk.finish - chunk.start, outcomes, tracked, losses };
    const orders = items.map(({ item, dueAt }) => ({ index: item - chunk.start, dueAt }));
    const effect = decideRedrive(stored, orders, drive);
    if (chunk.item_ledger === 1) {
      const place = { ...chunk, step, worker: null };
      this.#ledger.writeRedriven(num, place, outcomes, effect.outcomes, drive);
    }
    const dueAt = Math.floor(effect.dueAt);
    this.#updateChunk.run(effect.outcomes, dueAt, dueAt, num, step, chunk.chunk);
    for (const item of effect.track) {
      this.#updateItem.run(Math.floor(item.dueAt), drive, num, step, chunk.start + item.index);
    }
    const { permanent, transient, unexpected } = effect.tally;
    const { count } = effect;
    this.#updateStep.run(count, count, permanent, transient, unexpected, num, step);
  }

  #findChunkOf(num: number, step: number, item: number): RedrivenChunkRow {
    const chunk = this.#steps.findChunk(num, step, item);
    invariant(chunk !== null, `item ${item} has a chunk`);
    return this.#findChunk.get(num, step, chunk) as unknown as RedrivenChunkRow;
  }
}
