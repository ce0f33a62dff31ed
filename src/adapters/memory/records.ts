/** Transitions of a batch, each written together with its record. */
import { type BatchEvent, type BatchRecord, nextBatchState } from "../../core/batch/batch.ts";
import { type ChainedRecord, chainRecord, type Sha256 } from "../../core/ledger/chain.ts";
import { invariant } from "../../core/base/invariant.ts";
import type { ItemsRecord } from "../../core/ledger/item-ledger.ts";
import { type Clock, formatInstant } from "../../ports/clock.ts";
import type { Batch, State } from "./state.ts";

export class RecordLog {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #sha256: Sha256;

  constructor(state: State, clock: Clock, sha256: Sha256) {
    this.#state = state;
    this.#clock = clock;
    this.#sha256 = sha256;
  }

  record(batch: Batch, record: BatchRecord): void {
    const { seq, body, hash } = this.chain(batch, record);
    const { type } = record;
    const position = ++this.#state.lastPosition;
    this.#state.records.push({ position, batch: batch.submission.id, seq, type, body, hash });
  }

  /** Adds a link to the batch's chain; the caller stores it. */
  chain(batch: Batch, { type, data }: BatchRecord | ItemsRecord): ChainedRecord {
    const at = formatInstant(this.#clock.wallMs());
    const facts = { batch: batch.submission.id, type, at, data };
    const link = chainRecord(batch.head, facts, this.#sha256);
    batch.head = { seq: link.seq, hash: link.hash };
    return link;
  }

  move(batch: Batch, event: BatchEvent): void {
    const next = nextBatchState(batch.state, event);
    invariant(next !== null, `${event} on a ${batch.state} batch`);
    batch.state = next;
  }
}
