/** Transitions of a batch, each written with its record in the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import {
  type BatchEvent,
  type BatchRecord,
  type BatchState,
  decideEnding,
  describeEnding,
  type EndReason,
  isEnded,
  nextBatchState,
} from "../../core/batch.ts";
import { chainRecord, type Sha256 } from "../../core/chain.ts";
import { invariant } from "../../core/invariant.ts";
import { type Clock, formatInstant } from "../../ports/clock.ts";
import type { Connection } from "./connection.ts";
import { type BatchRow, readCounts, SELECT_BATCH } from "./rows.ts";

export class Recorder {
  readonly #clock: Clock;
  readonly #sha256: Sha256;
  readonly #selectBatch: StatementSync;
  readonly #insertRecord: StatementSync;
  readonly #updateHead: StatementSync;
  readonly #updateState: StatementSync;
  readonly #updateEnding: StatementSync;
  readonly #stopStep: StatementSync;
  readonly #cancelStep: StatementSync;
  readonly #cancelLeased: StatementSync;
  readonly #cancelWaiting: StatementSync;
  readonly #dropKeys: StatementSync;

  constructor(connection: Connection, clock: Clock, sha256: Sha256) {
    this.#clock = clock;
    this.#sha256 = sha256;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectBatch = prepare(`${SELECT_BATCH} WHERE b.num = ?`);
    this.#insertRecord = prepare(
      "INSERT INTO record (batch, seq, type, body, hash) VALUES (?, ?, ?, ?, ?)",
    );
    this.#updateHead = prepare("UPDATE batch SET record_seq = ?, record_hash = ? WHERE num = ?");
    this.#updateState = prepare("UPDATE batch SET state = ? WHERE num = ?");
    this.#updateEnding = prepare(
      "UPDATE batch SET ended_at = ?, reason_code = ?, reason_message = ? WHERE num = ?",
    );
    this.#stopStep = prepare("UPDATE step SET running = 0, leasable_at = NULL WHERE batch = ?");
    this.#cancelStep = prepare(
      "UPDATE step SET cancelled = cancelled + pending, pending = 0 WHERE batch = ?",
    );
    this.#cancelLeased = prepare(
      `UPDATE chunk INDEXED BY chunk_lease SET state = 'cancelled'
       WHERE state = 'leased' AND batch = ?`,
    );
    this.#dropKeys = prepare("DELETE FROM item_key WHERE batch = ?");
    this.#cancelWaiting = prepare(
      `UPDATE chunk INDEXED BY chunk_due SET state = 'cancelled'
       WHERE state = 'waiting' AND batch = ?`,
    );
  }

  get(num: number): BatchRow {
    const row = this.#selectBatch.get(num) as BatchRow | undefined;
    invariant(row !== undefined, `batch number ${num} exists`);
    return row;
  }

  record(num: number, { type, data }: BatchRecord): void {
    const batch = this.get(num);
    const head = { seq: batch.record_seq, hash: batch.record_hash };
    const at = formatInstant(this.#clock.wallMs());
    const { seq, body, hash } = chainRecord(
      head,
      { batch: batch.id, type, at, data },
      this.#sha256,
    );
    this.#insertRecord.run(num, seq, type, body, hash);
    this.#updateHead.run(seq, hash, num);
  }

  move(num: number, event: BatchEvent): BatchState {
    const { state } = this.get(num);
    const next = nextBatchState(state, event);
    invariant(next !== null, `${event} on a ${state} batch`);
    this.#updateState.run(next, num);
    return next;
  }

  /** Ends the batch if its last item is terminal; true when it did. */
  endIfFinished(num: number): boolean {
    const batch = this.get(num);
    const event = batch.state === "running" ? decideEnding(batch, batch.sealed === 1) : null;
    if (event === null) return false;
    this.#end(num, event, null);
    return true;
  }

  /** Ends the batch before its items: what did not run is cancelled, and no fence holds any more. */
  endEarly(num: number, event: "fail" | "expire", reason: EndReason): void {
    this.#cancelStep.run(num);
    this.#cancelLeased.run(num);
    this.#cancelWaiting.run(num);
    this.#dropKeys.run(num);
    this.#end(num, event, reason);
  }

  #end(num: number, event: BatchEvent, reason: EndReason | null): void {
    const before = this.get(num);
    const state = this.move(num, event);
    invariant(isEnded(state), `${event} must end a batch`);
    this.#updateEnding.run(
      this.#clock.wallMs(),
      reason?.code ?? null,
      reason?.message ?? null,
      num,
    );
    this.#stopStep.run(num);
    for (const record of describeEnding(before.state, state, readCounts(before), reason)) {
      this.record(num, record);
    }
  }
}
