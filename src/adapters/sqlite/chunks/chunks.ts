/** Applies a report or a loss to a chunk and to its step's counters, in SQL. */
import type { StatementSync } from "node:sqlite";
import type { LeaseAccount } from "../../../core/limits/fair-share.ts";
import type { ChunkEffect, StoredChunk, TrackedItem } from "../../../core/items/tracked-item.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { HeldRow, LedgerRow, StepChanges } from "../../sql/step-changes.ts";
import type { Connection } from "../connection/connection.ts";
import { type ItemRow, toTrackedItem } from "../../sql/rows.ts";
import { ITEM_COLUMNS } from "../connection/rows.ts";
import type { Topics } from "../topics/topics.ts";

const HELD_COLUMNS =
  "batch, step, chunk, start, finish, fence, worker, tracked, losses, outcomes, charge, busy_ms";

export class Chunks {
  readonly #clock: Clock;
  readonly #topics: Topics;
  readonly #selectHeld: StatementSync;
  readonly #selectTracked: StatementSync;
  readonly #update: StatementSync;
  readonly #putItem: StatementSync;
  readonly #deleteItem: StatementSync;
  readonly #updateStep: StatementSync;

  constructor(connection: Connection, clock: Clock, topics: Topics) {
    this.#clock = clock;
    this.#topics = topics;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectHeld = prepare(
      `SELECT ${HELD_COLUMNS} FROM chunk
       WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?`,
    );
    this.#selectTracked = prepare(
      `SELECT ${ITEM_COLUMNS} FROM item
       WHERE batch = ? AND step = ? AND item >= ? AND item < ? ORDER BY item`,
    );
    this.#update = prepare(
      `UPDATE chunk SET state = ?, due_at = ?, outcomes = ?, tracked = tracked OR ?, losses = ?,
         charge = ?, busy_ms = ?, rest_hold_up = ?, rest_key = ?
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#putItem = prepare(
      `INSERT INTO item (batch, step, item, key, attempts, deaths, started, dead, due_at,
         error_class, code, message, failed_at, checkpoint_name, checkpoint_data, drive)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (batch, step, item) DO UPDATE SET key = excluded.key,
         attempts = excluded.attempts, deaths = excluded.deaths, started = excluded.started,
         dead = excluded.dead, due_at = excluded.due_at, error_class = excluded.error_class,
         code = excluded.code, message = excluded.message, failed_at = excluded.failed_at,
         checkpoint_name = excluded.checkpoint_name, checkpoint_data = excluded.checkpoint_data,
         drive = excluded.drive`,
    );
    this.#deleteItem = prepare("DELETE FROM item WHERE batch = ? AND step = ? AND item = ?");
    this.#updateStep = prepare(
      // The earlier of two times, either of which may be NULL. No numbered parameters: Node 22
      // binds none of them by position.
      `UPDATE step SET succeeded = succeeded + ?, skipped = skipped + ?, failed = failed + ?,
         pending = pending - ?, failed_permanent = failed_permanent + ?,
         failed_transient = failed_transient + ?, failed_unexpected = failed_unexpected + ?,
         leasable_at = coalesce(min(leasable_at, ?), ?, leasable_at)
       WHERE batch = ? AND step = ? RETURNING pending, running, canary_chunks`,
    );
  }

  /** The chunk, if this lease still holds it: the fence decides, not the clock. */
  findHeld(batch: number, step: number, chunk: number, fence: number): LedgerRow | undefined {
    return this.#selectHeld.get(batch, step, chunk, fence) as LedgerRow | undefined;
  }

  readStored({ batch, step, start, finish, tracked, outcomes, losses }: HeldRow): StoredChunk {
    const rows = tracked === 0 ? [] : this.#selectTracked.all(batch, step, start, finish);
    return {
      items: finish - start,
      outcomes,
      tracked: (rows as unknown as ItemRow[]).map((row) => toTrackedItem(row, start)),
      losses,
    };
  }

  /** `account`: the lease's charge from now on, if a report changes it. */
  apply(
    row: HeldRow,
    effect: ChunkEffect,
    changes: StepChanges,
    account: LeaseAccount = { charge: row.charge, busyMs: row.busy_ms },
  ): void {
    const { batch, step, chunk, start } = row;
    const state = { settled: "settled", kept: "leased", yielded: "waiting" }[effect.end];
    const dueAt = effect.end === "yielded" ? effect.dueAt : 0;
    const tracks = effect.track.length > 0 ? 1 : 0;
    const { outcomes, losses, limitWait } = effect;
    const spent = [account.charge, account.busyMs] as const;
    const limit = [limitWait?.waitReason ?? null, limitWait?.key ?? null] as const;
    const place = [batch, step, chunk] as const;
    this.#update.run(state, dueAt, outcomes, tracks, losses, ...spent, ...limit, ...place);
    for (const index of effect.untrack) this.#deleteItem.run(batch, step, start + index);
    for (const item of effect.track) this.#track(row, item);
    this.#topics.write(row, effect);
    changes.add(row, effect);
  }

  #track({ batch, step, start }: HeldRow, item: TrackedItem): void {
    this.#putItem.run(
      batch,
      step,
      start + item.index,
      item.key,
      item.attempts,
      item.deaths,
      item.started ? 1 : 0,
      item.dead ? 1 : 0,
      item.dueAt,
      item.error?.errorClass ?? null,
      item.error?.code ?? null,
      item.error?.message ?? null,
      item.dead ? this.#clock.wallMs() : null,
      item.checkpoint?.name ?? null,
      item.checkpoint?.data ?? null,
      item.drive,
    );
  }

  /**
   * One update per step, however many of its chunks were reported; returns the batches that must be
   * checked. Most need no check: a success that is not the last item changes only counters.
   */
  applyChanges(changes: StepChanges): number[] {
    const due = new Set<number>();
    for (const change of changes.list()) {
      const { batch, step, succeeded, skipped, failed, dueAt } = change;
      const row = this.#updateStep.get(
        succeeded,
        skipped,
        failed,
        succeeded + skipped + failed,
        change.permanent,
        change.transient,
        change.unexpected,
        dueAt,
        dueAt,
        batch,
        step,
      ) as { pending: number; running: number; canary_chunks: number | null };
      const { pending, running, canary_chunks: canary } = row;
      if (pending === 0 || running === 0 || canary !== null || failed > 0) due.add(batch);
    }
    return [...due];
  }
}
