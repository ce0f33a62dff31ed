/** Transitions of a batch, each written with its record in the caller's transaction. */
import {
  type BatchEvent,
  type BatchRecord,
  type BatchState,
  nextBatchState,
} from "../../../core/batch/batch.ts";
import { invariant } from "../../../core/base/invariant.ts";
import {
  CHAIN_START,
  type ChainedRecord,
  chainRecord,
  type Sha256,
} from "../../../core/ledger/chain.ts";
import type { ItemsRecord } from "../../../core/ledger/item-ledger.ts";
import { formatInstant } from "../../../ports/clock.ts";
import type { BatchRow } from "../rows.ts";
import type { Act } from "../dialect/act.ts";
import { SELECT_BATCH } from "./columns.ts";
import { statement } from "../dialect/statement.ts";
import type { ChainHead, RuleTransaction } from "../dialect/transaction.ts";

const FIND = statement(`${SELECT_BATCH} WHERE b.num = $1`);
const FIND_HEAD = statement("SELECT id, record_seq, record_hash FROM batch WHERE num = $1");
const INSERT_RECORD = statement(
  "INSERT INTO record (batch, seq, type, body, hash) VALUES ($1, $2, $3, $4, $5)",
);
const UPDATE_HEAD = statement("UPDATE batch SET record_seq = $2, record_hash = $3 WHERE num = $1");
const UPDATE_STATE = statement("UPDATE batch SET state = $2 WHERE num = $1");

export class RecordLog {
  readonly #sha256: Sha256;

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  *get(tx: RuleTransaction, num: number): Act<BatchRow> {
    const row = yield* tx.get<BatchRow>(FIND, num);
    invariant(row !== undefined, `batch number ${num} exists`);
    return row;
  }

  /** A batch that the transaction has just inserted: its chain is known. */
  begin(tx: RuleTransaction, num: number, id: string): void {
    tx.heads?.set(num, { id, ...CHAIN_START });
  }

  *record(tx: RuleTransaction, num: number, ...records: readonly BatchRecord[]): Act<void> {
    for (const { seq, type, body, hash } of yield* this.chain(tx, num, records)) {
      tx.send(INSERT_RECORD, num, seq, type, body, hash);
    }
    tx.notify();
  }

  /** Adds links to the batch's chain; the caller stores them. */
  *chain(
    tx: RuleTransaction,
    num: number,
    records: readonly (BatchRecord | ItemsRecord)[],
  ): Act<ChainedRecord[]> {
    if (records.length === 0) return [];
    let head = tx.heads?.get(num) ?? (yield* this.#readHead(tx, num));
    const at = formatInstant(tx.wallMs);
    const links = records.map(({ type, data }) => {
      const { id } = head;
      const link = chainRecord(head, { batch: id, type, at, data }, this.#sha256);
      head = { id, seq: link.seq, hash: link.hash };
      return link;
    });
    tx.heads?.set(num, head);
    tx.send(UPDATE_HEAD, num, head.seq, head.hash);
    return links;
  }

  *#readHead(tx: RuleTransaction, num: number): Act<ChainHead> {
    type Row = Pick<BatchRow, "id" | "record_seq" | "record_hash">;
    const row = yield* tx.get<Row>(FIND_HEAD, num);
    invariant(row !== undefined, `batch number ${num} exists`);
    return { id: row.id, seq: row.record_seq, hash: row.record_hash };
  }

  /** `state`: as it is. */
  move(
    tx: RuleTransaction,
    { num, state }: Pick<BatchRow, "num" | "state">,
    event: BatchEvent,
  ): BatchState {
    const next = decideNextState(state, event);
    tx.send(UPDATE_STATE, num, next);
    return next;
  }
}

export function decideNextState(state: BatchState, event: BatchEvent): BatchState {
  const next = nextBatchState(state, event);
  invariant(next !== null, `${event} on a ${state} batch`);
  return next;
}
