/**
 * Hands the store's records to a subscriber, one at a time and in order, at least once: a reader's
 * position is saved after its handler returned, so a crash in between repeats a record and never
 * loses one. Each carries a stable id for de-duplication. One that the subscriber will not take is
 * given up into an undelivered letter, in the commit that moves the reader past it.
 */
import { decideDelivery } from "../core/delivery.ts";
import { describeError, type ErrorFacts, SluiceError } from "../core/errors.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { StoredRecord } from "../ports/reading.ts";
import type { Store } from "../ports/store.ts";
import { type BatchEvent, readEvent } from "./batch-event.ts";
import { renewClaim } from "./held-claim.ts";
import type { Log } from "./log.ts";
import type { EngineSettings } from "./settings.ts";
import type { Subscriber } from "./subscriber.ts";
import { Wake } from "./wake.ts";

export interface RelayParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: Pick<EngineSettings, "pollMs">;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
}

type HandOver =
  | { readonly kind: "taken" }
  | { readonly kind: "given_up"; readonly attempts: number; readonly facts: ErrorFacts }
  /** The relay stops first. */
  | { readonly kind: "stopped" };

const RECORDS_PER_READ = 100;
const CLAIM_MS = 15_000;
const RENEW_MS = 5_000;

export class Relay {
  readonly #parts: RelayParts;
  readonly #subscriber: Subscriber;
  readonly #wake: Wake;
  readonly #unwatch: () => void;
  readonly #stop = new AbortController();
  /** Stopped for good: what a handler still does counts for nothing. */
  readonly #over = new AbortController();
  readonly #loop: Promise<void>;
  /** Lets go of the claim while records are handed over. */
  #release: () => void = () => undefined;
  /** Who waits for a look that finds nothing more to deliver. */
  #waiting: (() => void)[] = [];

  constructor(subscriber: Subscriber, parts: RelayParts) {
    this.#subscriber = subscriber;
    this.#parts = parts;
    this.#wake = new Wake(parts.clock);
    this.#unwatch = parts.store.watch(() => this.#wake.notify());
    this.#loop = this.#run().catch((error: unknown) => parts.onFatal(error));
  }

  /** Resolves when all that is recorded now has been handed over, by whichever process. */
  catchUp(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#wake.notify();
    });
  }

  /** Waits for the handler within the drain time; what it has not taken by then comes again. */
  async stop(drainMs: number): Promise<void> {
    const { store, clock, worker } = this.#parts;
    this.#stop.abort();
    this.#wake.notify();
    const ended = new AbortController();
    void this.#loop.then(() => ended.abort());
    await sleep(clock, drainMs, ended.signal);
    this.#over.abort();
    this.#release();
    this.#unwatch();
    await store.unclaim(this.#duty, worker);
  }

  get #duty(): string {
    return `relay/${this.#subscriber.name}`;
  }

  async #run(): Promise<void> {
    const { log, settings } = this.#parts;
    let isStarted = false;
    while (!this.#stop.signal.aborted) {
      let moved = false;
      try {
        if (!isStarted) await this.#start();
        isStarted = true;
        moved = await this.#look();
      } catch (error) {
        if (!(error instanceof SluiceError && error.retryable)) throw error;
        log({ level: "warn", event: "relay.retry", message: describeError(error).message, error });
      }
      if (!moved) await this.#wake.wait(settings.pollMs);
    }
  }

  async #start(): Promise<void> {
    const { name, since } = this.#subscriber;
    await this.#parts.store.startReader(name, since);
  }

  /** True when it came further. */
  async #look(): Promise<boolean> {
    const { store, worker } = this.#parts;
    // Those who ask from here on may mean a record that this look does not see.
    const waiting = this.#waiting;
    this.#waiting = [];
    if ((await this.#readNext()).length === 0) {
      for (const resolve of waiting) resolve();
      return false;
    }
    this.#waiting.push(...waiting);
    if (!(await store.claim(this.#duty, worker, CLAIM_MS))) return false;
    // Once more: whoever had the claim may have delivered them meanwhile.
    const records = await this.#readNext();
    this.#release = renewClaim(this.#duty, {
      ...this.#parts,
      claimMs: CLAIM_MS,
      renewMs: RENEW_MS,
    });
    try {
      return await this.#deliver(records);
    } finally {
      this.#release();
    }
  }

  async #readNext(): Promise<readonly StoredRecord[]> {
    const { store } = this.#parts;
    const position = await store.readPosition(this.#subscriber.name);
    return store.readRecords(null, position, RECORDS_PER_READ);
  }

  async #deliver(records: readonly StoredRecord[]): Promise<boolean> {
    const { store } = this.#parts;
    const { name } = this.#subscriber;
    let moved = false;
    /** The last record that nobody wants; those before the next wanted one need no commit. */
    let passed: number | null = null;
    for (const record of records) {
      if (!this.#subscriber.wants(record.type)) {
        passed = record.position;
        continue;
      }
      const end = await this.#handOver(readEvent(record));
      if (end.kind === "stopped") return moved;
      if (end.kind === "given_up") await this.#giveUp(record, end.attempts, end.facts);
      else await store.savePosition(name, record.position);
      moved = true;
      passed = null;
    }
    if (passed !== null) await store.savePosition(name, passed);
    return moved || passed !== null;
  }

  async #handOver(event: BatchEvent): Promise<HandOver> {
    const { clock, random, log } = this.#parts;
    const { name, retry } = this.#subscriber;
    const context = { clock, signal: this.#over.signal };
    for (let attempts = 1; !this.#stop.signal.aborted; attempts++) {
      try {
        await this.#subscriber.deliver(event, context);
        return this.#over.signal.aborted ? { kind: "stopped" } : { kind: "taken" };
      } catch (error) {
        if (this.#over.signal.aborted) break;
        const facts = describeError(error);
        const message = `subscriber ${name} failed on ${event.id}: ${facts.message}`;
        log({ level: "warn", event: "relay.handler_failed", message, error });
        const decision = decideDelivery(retry, facts, attempts, random.next());
        if (decision.kind === "give_up") return { kind: "given_up", attempts, facts };
        await sleep(clock, decision.delayMs, this.#stop.signal);
      }
    }
    return { kind: "stopped" };
  }

  async #giveUp(record: StoredRecord, attempts: number, facts: ErrorFacts): Promise<void> {
    const { store, log } = this.#parts;
    const { name } = this.#subscriber;
    const { position, batch, seq, type } = record;
    const event = `${batch}/${seq}`;
    const { code, message } = facts;
    await store.keepUndelivered({
      reader: name,
      position,
      event,
      batch,
      type,
      attempts,
      code,
      message,
    });
    const tries = attempts === 1 ? "once" : `${attempts} times`;
    log({
      level: "error",
      event: "relay.given_up",
      message: `subscriber ${name} gave up on ${event} (${type}) after trying ${tries}: it is kept as an undelivered letter (${code})`,
    });
  }
}
