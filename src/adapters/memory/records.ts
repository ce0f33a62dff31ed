/** Transitions of a batch, each written with its record in one step. */
import { type BatchEvent, type BatchRecord, nextBatchState } from "../../core/batch.ts";
import { chainRecord, type Sha256 } from "../../core/chain.ts";
import { invariant } from "../../core/invariant.ts";
import { type Clock, formatInstant } from "../../ports/clock.ts";
import type { Batch, State } from "./state.ts";

export class Recorder {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #sha256: Sha256;

  constructor(state: State, clock: Clock, sha256: Sha256) {
    this.#state = state;
    this.#clock = clock;
    this.#sha256 = sha256;
  }

  record(batch: Batch, { type, data }: BatchRecord): void {
    const id = batch.submission.id;
    const at = formatInstant(this.#clock.wallMs());
    const { seq, body, hash } = chainRecord(
      batch.head,
      { batch: id, type, at, data },
      this.#sha256,
    );
    batch.head = { seq, hash };
    const position = ++this.#state.lastPosition;
    this.#state.records.push({ position, batch: id, seq, type, body, hash });
  }

  move(batch: Batch, event: BatchEvent): void {
    const next = nextBatchState(batch.state, event);
    invariant(next !== null, `${event} on a ${batch.state} batch`);
    batch.state = next;
  }
}
