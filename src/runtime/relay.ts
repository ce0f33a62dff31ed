/**
 * Hands the store's records to a subscriber, one at a time and in order, at least once: a reader's
 * position is saved after its handler returned, so a crash in between repeats a record and never
 * loses one. Each carries a stable id for de-duplication.
 */
import { describeError, SluiceError } from "../core/errors.ts";
import { computeBackoffMs, type RetryPolicy } from "../core/retry.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { StoredRecord } from "../ports/reading.ts";
import type { Store } from "../ports/store.ts";
import { type BatchEvent, readEvent } from "./batch-event.ts";
import { renewClaim } from "./held-claim.ts";
import type { Log } from "./log.ts";
import { Wake } from "./wake.ts";

export interface RelayParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
}

export type EventHandler = (event: BatchEvent) => void | Promise<void>;

const RECORDS_PER_READ = 100;
const CLAIM_MS = 15_000;
const RENEW_MS = 5_000;
const POLL_MS = 1_000;
/** A subscriber that fails is asked again for ever: the record is not its to drop. */
const RETRY: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, baseMs: 500, capMs: 30_000 };

export class Relay {
  readonly #parts: RelayParts;
  readonly #reader: string;
  readonly #handler: EventHandler;
  readonly #wake: Wake;
  readonly #unwatch: () => void;
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  /** Lets go of the claim while records are handed over. */
  #release: () => void = () => undefined;
  /** Stopped for good: what a handler still does counts for nothing. */
  #over = false;

  constructor(reader: string, handler: EventHandler, parts: RelayParts) {
    this.#reader = reader;
    this.#handler = handler;
    this.#parts = parts;
    this.#wake = new Wake(parts.clock);
    this.#unwatch = parts.store.watch(() => this.#wake.notify());
    this.#loop = this.#run().catch((error: unknown) => parts.onFatal(error));
  }

  /** Waits for the handler within the drain time; what it has not taken by then comes again. */
  async stop(drainMs: number): Promise<void> {
    const { store, clock, worker } = this.#parts;
    this.#stop.abort();
    this.#wake.notify();
    const ended = new AbortController();
    void this.#loop.then(() => ended.abort());
    await sleep(clock, drainMs, ended.signal);
    this.#over = true;
    this.#release();
    this.#unwatch();
    await store.unclaim(this.#duty, worker);
  }

  get #duty(): string {
    return `relay/${this.#reader}`;
  }

  async #run(): Promise<void> {
    const { log } = this.#parts;
    while (!this.#stop.signal.aborted) {
      let delivered = 0;
      try {
        delivered = await this.#deliver();
      } catch (error) {
        if (!(error instanceof SluiceError && error.retryable)) throw error;
        log({ level: "warn", event: "relay.retry", message: describeError(error).message, error });
      }
      if (delivered === 0) await this.#wake.wait(POLL_MS);
    }
  }

  async #deliver(): Promise<number> {
    const { store, worker } = this.#parts;
    if ((await this.#readNext()).length === 0) return 0;
    if (!(await store.claim(this.#duty, worker, CLAIM_MS))) return 0;
    // Once more: whoever had the claim may have delivered them meanwhile.
    const records = await this.#readNext();
    this.#release = renewClaim(this.#duty, {
      ...this.#parts,
      claimMs: CLAIM_MS,
      renewMs: RENEW_MS,
    });
    let delivered = 0;
    try {
      for (const record of records) {
        if (!(await this.#handOver(readEvent(record)))) break;
        await store.savePosition(this.#reader, record.position);
        delivered++;
      }
    } finally {
      this.#release();
    }
    return delivered;
  }

  async #readNext(): Promise<readonly StoredRecord[]> {
    const { store } = this.#parts;
    const position = await store.readPosition(this.#reader);
    return store.readRecords(null, position, RECORDS_PER_READ);
  }

  /** True when the handler has taken the event; false when the relay stops first. */
  async #handOver(event: BatchEvent): Promise<boolean> {
    const { clock, random, log } = this.#parts;
    for (let attempt = 1; !this.#stop.signal.aborted; attempt++) {
      try {
        await this.#handler(event);
        return !this.#over;
      } catch (error) {
        const message = `subscriber ${this.#reader} failed on ${event.id}: ${describeError(error).message}`;
        log({ level: "warn", event: "relay.handler_failed", message, error });
      }
      const delayMs = computeBackoffMs(RETRY, Math.min(attempt, 10), random.next());
      await sleep(clock, delayMs, this.#stop.signal);
    }
    return false;
  }
}
