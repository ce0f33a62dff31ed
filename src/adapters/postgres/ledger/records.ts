/** Transitions of a batch, each written with its record in the caller's transaction. */
import {
  type BatchEvent,
  type BatchRecord,
  type BatchState,
  nextBatchState,
} from "../../../core/batch/batch.ts";
import {
  CHAIN_START,
  type ChainedRecord,
  chainRecord,
  type Sha256,
} from "../../../core/ledger/chain.ts";
import { invariant } from "../../../core/base/invariant.ts";
import type { ItemsRecord } from "../../../core/ledger/item-ledger.ts";
import { formatInstant } from "../../../ports/clock.ts";
import type { BatchRow } from "../../sql/rows.ts";
import { SELECT_BATCH } from "../connection/rows.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const FIND = statement(`${SELECT_BATCH} WHERE b.num = $1`);
const FIND_HEAD = statement("SELECT id, record_seq, record_hash FROM batch WHERE num = $1");
const FIND_HEADS = statement(
  "SELECT num, id, record_seq, record_hash FROM batch WHERE id = ANY($1::text[])",
);
const FIND_STATE = statement("SELECT state FROM batch WHERE num = $1");
const INSERT_RECORD = statement(
  "INSERT INTO record (batch, seq, type, body, hash) VALUES ($1, $2, $3, $4, $5)",
);
const UPDATE_HEAD = statement("UPDATE batch SET record_seq = $2, record_hash = $3 WHERE num = $1");
const UPDATE_STATE = statement("UPDATE batch SET state = $2 WHERE num = $1");

/** The last record of a batch. */
interface Head {
  readonly id: string;
  readonly seq: number;
  readonly hash: string;
}

export class RecordLog {
  readonly #sha256: Sha256;
  /**
   * A batch is locked when a record is added, so a head that the transaction has read or written
   * stays the head until its end.
   */
  readonly #heads = new WeakMap<Transaction, Map<number, Head>>();

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  async get(tx: Transaction, num: number): Promise<BatchRow> {
    const row = await tx.get<BatchRow>(FIND, num);
    invariant(row !== undefined, `batch number ${num} exists`);
    return row;
  }

  /** A batch that the transaction has just inserted: its chain is known. */
  begin(tx: Transaction, num: number, id: string): void {
    this.#know(tx).set(num, { id, ...CHAIN_START });
  }

  async record(tx: Transaction, num: number, ...records: readonly BatchRecord[]): Promise<void> {
    for (const { seq, type, body, hash } of await this.chain(tx, num, records)) {
      tx.send(INSERT_RECORD, num, seq, type, body, hash);
    }
    tx.notify();
  }

  /** Adds links to the batch's chain; the caller stores them. */
  async chain(
    tx: Transaction,
    num: number,
    records: readonly (BatchRecord | ItemsRecord)[],
  ): Promise<ChainedRecord[]> {
    if (records.length === 0) return [];
    const heads = this.#know(tx);
    let head = heads.get(num) ?? (await this.#readHead(tx, num));
    const at = formatInstant(tx.wallMs);
    const links = records.map(({ type, data }) => {
      const { id } = head;
      const link = chainRecord(head, { batch: id, type, at, data }, this.#sha256);
      head = { id, seq: link.seq, hash: link.hash };
      return link;
    });
    heads.set(num, head);
    tx.send(UPDATE_HEAD, num, head.seq, head.hash);
    return links;
  }

  /** For batches that the transaction has locked, in one query. */
  async readHeads(tx: Transaction, ids: readonly string[]): Promise<void> {
    type Row = Pick<BatchRow, "num" | "id" | "record_seq" | "record_hash">;
    const heads = this.#know(tx);
    for (const { num, id, record_seq: seq, record_hash: hash } of await tx.all<Row>(
      FIND_HEADS,
      ids,
    )) {
      if (!heads.has(num)) heads.set(num, { id, seq, hash });
    }
  }

  #know(tx: Transaction): Map<number, Head> {
    const known = this.#heads.get(tx) ?? new Map<number, Head>();
    this.#heads.set(tx, known);
    return known;
  }

  async #readHead(tx: Transaction, num: number): Promise<Head> {
    const row = await tx.get<Pick<BatchRow, "id" | "record_seq" | "record_hash">>(FIND_HEAD, num);
    invariant(row !== undefined, `batch number ${num} exists`);
    return { id: row.id, seq: row.record_seq, hash: row.record_hash };
  }

  async move(tx: Transaction, num: number, event: BatchEvent): Promise<BatchState> {
    const { state } = (await tx.get(FIND_STATE, num)) as { state: BatchState };
    const next = nextBatchState(state, event);
    invariant(next !== null, `${event} on a ${state} batch`);
    tx.send(UPDATE_STATE, num, next);
    return next;
  }
}
