/**
 * Delivers a stream (the store's records, or a topic's messages) to its reader in order, at least
 * once. The reader's position is saved after its handler returned, so a crash in between repeats a
 * delivery and never loses one. Each delivery has a stable id for de-duplication. One that the
 * reader keeps refusing is stored as undelivered, in the commit that moves the reader past it.
 */
import { decideDelivery } from "../../core/events/delivery.ts";
import { describeError, type ErrorFacts } from "../../core/base/errors.ts";
import { listSecrets, makeRedact } from "../../core/base/redact.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import { renewClaim } from "../conducting/held-claim.ts";
import type { Log } from "../system/log.ts";
import { redactError } from "../system/redact-error.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { EngineSettings } from "../system/settings.ts";
import { ClaimRetryTimer } from "../conducting/claim-retry-timer.ts";
import { type Delivery, readStream } from "./stream.ts";
import type { Reader } from "./subscriber.ts";
import { ChangeSignal } from "../system/change-signal.ts";

export interface StreamDeliveryParts {
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
  /** The delivery was stopped first. */
  | { readonly kind: "stopped" };

/** Size of a page; larger for readers that take several at once, as every page costs a claim. */
const READ_LIMIT = 100;
const GROUPS_PER_READ = 10;
const READ_LIMIT_MAX = 10_000;
const CLAIM_MS = 15_000;
const RENEW_MS = 5_000;

interface Page {
  /** The reader's position before this page. */
  readonly from: number;
  readonly deliveries: readonly Delivery[];
}

export class StreamDelivery {
  readonly #parts: StreamDeliveryParts;
  readonly #reader: Reader;
  readonly #changed: ChangeSignal;
  readonly #claimRetryTimer: ClaimRetryTimer;
  readonly #unwatch: () => void;
  readonly #stop = new AbortController();
  /** Aborted when the drain time is over: what a handler does afterwards does not count. */
  readonly #drained = new AbortController();
  readonly #loop: Promise<void>;
  /** Stops the renewal of the claim; set while a page is being delivered. */
  #stopRenewal: () => void = () => undefined;
  /** Callers that wait for a look that finds nothing more to deliver. */
  #waiting: (() => void)[] = [];

  constructor(reader: Reader, parts: StreamDeliveryParts) {
    this.#reader = reader;
    this.#parts = parts;
    this.#changed = new ChangeSignal(parts.clock);
    this.#claimRetryTimer = new ClaimRetryTimer(parts.clock, this.#changed);
    this.#unwatch = parts.store.watch(() => this.#changed.notify());
    this.#loop = this.#run().catch((error: unknown) => parts.onFatal(error));
  }

  /** Resolves when everything that is recorded now has been delivered, by any process. */
  catchUp(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#changed.notify();
    });
  }

  /**
   * Waits for the handler for the drain time; what it did not finish by then is delivered again.
   */
  async stop(drainMs: number): Promise<void> {
    const { store, clock, worker } = this.#parts;
    this.#stop.abort();
    this.#claimRetryTimer.stop();
    this.#changed.notify();
    const ended = new AbortController();
    void this.#loop.then(() => ended.abort());
    await sleep(clock, drainMs, ended.signal);
    this.#drained.abort();
    this.#stopRenewal();
    this.#unwatch();
    await store.unclaim(this.#task, worker);
  }

  get #readLimit(): number {
    const wanted = GROUPS_PER_READ * this.#reader.batchMax;
    return Math.min(Math.max(READ_LIMIT, wanted), READ_LIMIT_MAX);
  }

  get #task(): string {
    return `deliver/${this.#reader.name}`;
  }

  async #run(): Promise<void> {
    const { clock, settings } = this.#parts;
    const loopBackoff = new LoopBackoff({ event: "delivery.retry" }, this.#parts);
    let isStarted = false;
    while (!this.#stop.signal.aborted) {
      let moved = false;
      try {
        if (!isStarted) await this.#start();
        isStarted = true;
        moved = await this.#look();
        loopBackoff.clear();
      } catch (error) {
        const waitMs = loopBackoff.note(error);
        if (waitMs === null) throw error;
        await sleep(clock, waitMs, this.#stop.signal);
      }
      if (!moved) await this.#changed.wait(settings.pollMs);
    }
  }

  async #start(): Promise<void> {
    const { name, since } = this.#reader;
    await this.#parts.store.startReader(name, since);
  }

  /** True when the reader's position moved. */
  async #look(): Promise<boolean> {
    const { store, worker } = this.#parts;
    // A caller that arrives from here on may wait for a record that this read does not see.
    const waiting = this.#waiting;
    this.#waiting = [];
    if ((await this.#readNext(1)).deliveries.length === 0) {
      for (const resolve of waiting) resolve();
      return false;
    }
    this.#waiting.push(...waiting);
    if (!(await store.claim(this.#task, worker, CLAIM_MS))) {
      this.#claimRetryTimer.lookAgain();
      return false;
    }
    // Read again: the previous holder of the claim may have delivered them meanwhile.
    const page = await this.#readNext(this.#readLimit);
    this.#stopRenewal = renewClaim(this.#task, {
      ...this.#parts,
      claimMs: CLAIM_MS,
      renewMs: RENEW_MS,
    });
    try {
      return await this.#deliver(page);
    } finally {
      this.#stopRenewal();
    }
  }

  async #readNext(limit: number): Promise<Page> {
    const { store } = this.#parts;
    const { name } = this.#reader;
    const from = await store.readPosition(name);
    return { from, deliveries: await readStream(store, name, from, limit) };
  }

  /** True when the reader's position moved, by this process or another. */
  async #deliver({ from, deliveries }: Page): Promise<boolean> {
    const { store } = this.#parts;
    const { name, batchMax } = this.#reader;
    /** The last position saved here: a save from it fails if someone rewound the reader. */
    let left = from;
    /** The last unwanted one: it is committed at the end, or with the next wanted one. */
    let passed: number | null = null;
    /** How many of a refused group remain to be delivered one by one. */
    let alone = 0;
    for (let at = 0; at < deliveries.length; ) {
      const group = deliveries.slice(at, at + (alone > 0 ? 1 : batchMax));
      const last = group.at(-1) as Delivery;
      if (!this.#reader.wants(last.type)) {
        passed = last.position;
        at += group.length;
        continue;
      }
      const end = await this.#handOver(group);
      if (end.kind === "stopped") return left > from;
      if (end.kind === "given_up" && group.length > 1) {
        alone = group.length;
        continue;
      }
      if (end.kind === "given_up") await this.#giveUp(last, end.attempts, end.facts, left);
      else if (!(await store.savePosition(name, last.position, left))) return true;
      at += group.length;
      alone = Math.max(0, alone - group.length);
      left = last.position;
      passed = null;
    }
    if (passed !== null) await store.savePosition(name, passed, left);
    return left > from || passed !== null;
  }

  async #handOver(group: readonly Delivery[]): Promise<HandOver> {
    const { clock, random, log } = this.#parts;
    const { kind, name, retry } = this.#reader;
    const context = { clock, signal: this.#drained.signal };
    for (let attempts = 1; !this.#stop.signal.aborted; attempts++) {
      try {
        await this.#reader.deliver(group, context);
        return this.#drained.signal.aborted ? { kind: "stopped" } : { kind: "taken" };
      } catch (error) {
        if (this.#drained.signal.aborted) break;
        // The error may quote the data that was delivered.
        const redact = makeRedact(group.flatMap(({ open }) => listSecrets(open().data)));
        const facts = describeError(error, redact);
        const message = `${kind} ${name} failed on ${describeGroup(group)}: ${facts.message}`;
        const safe = redactError(error, redact);
        log({ level: "warn", event: "delivery.handler_failed", message, error: safe });
        const decision = decideDelivery(retry, facts, attempts, random.next());
        if (decision.kind === "give_up") return { kind: "given_up", attempts, facts };
        await sleep(clock, decision.delayMs, this.#stop.signal);
      }
    }
    return { kind: "stopped" };
  }

  async #giveUp(
    { position, id: event, batch, type }: Delivery,
    attempts: number,
    { code, message }: ErrorFacts,
    left: number,
  ): Promise<void> {
    const { store, log } = this.#parts;
    const { kind, name } = this.#reader;
    const undelivered = { reader: name, position, event, batch, type, attempts, code, message };
    await store.keepUndelivered(undelivered, left);
    const tries = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
    log({
      level: "error",
      event: "delivery.given_up",
      message: `${kind} ${name} gave up on ${event} (${type}) after ${tries}: it is now undelivered (${code})`,
    });
  }
}

function describeGroup(group: readonly Delivery[]): string {
  const [first] = group;
  return group.length === 1 ? `${first?.id}` : `${group.length} from ${first?.id} on`;
}
