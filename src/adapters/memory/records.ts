/** Transitions of a batch, each written with its record in one step. */
import {
  type BatchEvent,
  type BatchRecord,
  decideEnding,
  describeEnding,
  type EndReason,
  isEnded,
  nextBatchState,
} from "../../core/batch.ts";
import { chainRecord, type Sha256 } from "../../core/chain.ts";
import { cancelPending } from "../../core/counts.ts";
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
    const position = this.#state.records.length + 1;
    this.#state.records.push({ position, batch: id, seq, type, body, hash });
  }

  move(batch: Batch, event: BatchEvent): void {
    const next = nextBatchState(batch.state, event);
    invariant(next !== null, `${event} on a ${batch.state} batch`);
    batch.state = next;
  }

  /** Ends the batch if its last item is terminal; true when it did. */
  endIfFinished(batch: Batch): boolean {
    const event = batch.state === "running" ? decideEnding(batch.counts, batch.sealed) : null;
    if (event === null) return false;
    this.#end(batch, event, null);
    return true;
  }

  /** Ends the batch before its items: what did not run is cancelled. */
  endEarly(batch: Batch, event: "fail" | "expire", reason: EndReason): void {
    batch.counts = cancelPending(batch.counts);
    for (const chunk of batch.chunks) {
      if (chunk.state === "leased" || chunk.state === "waiting") chunk.state = "cancelled";
    }
    this.#end(batch, event, reason);
  }

  #end(batch: Batch, event: BatchEvent, reason: EndReason | null): void {
    const from = batch.state;
    this.move(batch, event);
    invariant(isEnded(batch.state), `${event} must end a batch`);
    batch.endedAt = this.#clock.wallMs();
    batch.reason = reason;
    for (const record of describeEnding(from, batch.state, batch.counts, reason)) {
      this.record(batch, record);
    }
  }
}
