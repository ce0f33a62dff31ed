/** Transitions of a batch, each written with its record in the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import {
  type BatchEvent,
  type BatchRecord,
  type BatchState,
  nextBatchState,
} from "../../../core/batch/batch.ts";
import { type ChainedRecord, chainRecord, type Sha256 } from "../../../core/ledger/chain.ts";
import { invariant } from "../../../core/base/invariant.ts";
import type { ItemsRecord } from "../../../core/ledger/item-ledger.ts";
import { type Clock, formatInstant } from "../../../ports/clock.ts";
import type { Connection } from "../connection/connection.ts";
import type { BatchRow } from "../../sql/rows.ts";
import { SELECT_BATCH } from "../connection/rows.ts";

export class RecordLog {
  readonly #clock: Clock;
  readonly #sha256: Sha256;
  readonly #selectBatch: StatementSync;
  readonly #selectHead: StatementSync;
  readonly #selectState: StatementSync;
  readonly #insertRecord: StatementSync;
  readonly #updateHead: StatementSync;
  readonly #updateState: StatementSync;

  constructor(connection: Connection, clock: Clock, sha256: Sha256) {
    this.#clock = clock;
    this.#sha256 = sha256;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectBatch = prepare(`${SELECT_BATCH} WHERE b.num = ?`);
    this.#selectHead = prepare("SELECT id, record_seq, record_hash FROM batch WHERE num = ?");
    this.#selectState = prepare("SELECT state FROM batch WHERE num = ?");
    this.#insertRecord = prepare(
      "INSERT INTO record (batch, seq, type, body, hash) VALUES (?, ?, ?, ?, ?)",
    );
    this.#updateHead = prepare("UPDATE batch SET record_seq = ?, record_hash = ? WHERE num = ?");
    this.#updateState = prepare("UPDATE batch SET state = ? WHERE num = ?");
  }

  get(num: number): BatchRow {
    const row = this.#selectBatch.get(num) as BatchRow | undefined;
    invariant(row !== undefined, `batch number ${num} exists`);
    return row;
  }

  record(num: number, ...records: readonly BatchRecord[]): void {
    for (const { seq, type, body, hash } of this.chain(num, records)) {
      this.#insertRecord.run(num, seq, type, body, hash);
    }
  }

  /** Adds links to the batch's chain; the caller stores them. */
  chain(num: number, records: readonly (BatchRecord | ItemsRecord)[]): ChainedRecord[] {
    if (records.length === 0) return [];
    const row = this.#selectHead.get(num) as Pick<BatchRow, "id" | "record_seq" | "record_hash">;
    const at = formatInstant(this.#clock.wallMs());
    let head = { seq: row.record_seq, hash: row.record_hash };
    const links = records.map(({ type, data }) => {
      const link = chainRecord(head, { batch: row.id, type, at, data }, this.#sha256);
      head = { seq: link.seq, hash: link.hash };
      return link;
    });
    this.#updateHead.run(head.seq, head.hash, num);
    return links;
  }

  move(num: number, event: BatchEvent): BatchState {
    const { state } = this.#selectState.get(num) as { state: BatchState };
    const next = nextBatchState(state, event);
    invariant(next !== null, `${event} on a ${state} batch`);
    this.#updateState.run(next, num);
    return next;
  }
}
