/**
 * Takes events: a handler or a sink with a durable name, the events that it wants, and its retries.
 * It takes one event at a time, also when a redelivery comes in between.
 */
import type { RecordType } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import { OptionProblems } from "../../core/events/option-problems.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import type { ReaderStart } from "../../ports/store/delivery-store.ts";
import type { Sink, SinkContext } from "../../ports/sink.ts";
import type { Delivery } from "./stream.ts";

/** Takes a stream: a subscriber takes events, a consumer takes the messages of a topic. */
export interface Reader {
  /** What it is called in messages. */
  readonly kind: "subscriber" | "consumer";
  /** The name under which the store keeps its position. */
  readonly name: string;
  readonly since: ReaderStart;
  readonly retry: RetryPolicy;
  /** At most this many are delivered together. */
  readonly batchMax: number;
  wants(type: string): boolean;
  deliver(deliveries: readonly Delivery[], context: SinkContext): Promise<void>;
}

export type EventHandler = Unnamed<(event: BatchEvent) => void | Promise<void>>;

export interface SubscribeOptions {
  /** Deliver only these events; default all, or those of the sink. */
  readonly events?: readonly RecordType[];
  /** Attempts to deliver before an event is given up; default unlimited, or the sink's own. */
  readonly attempts?: number;
  /** Delay between two attempts; default 500 ms up to 30 s, or the sink's own. */
  readonly backoff?: { readonly baseMs?: number; readonly capMs?: number };
  /**
   * Where a new name begins: with the oldest record in the store (default), or with the next one.
   */
  readonly since?: Exclude<ReaderStart, number>;
}

/** A handler in code is retried without end: an error in it must not drop a record. */
export const HANDLER_RETRY: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  baseMs: 500,
  capMs: 30_000,
};
const OPTIONS = ["events", "attempts", "backoff", "since"];
const STARTS: readonly unknown[] = ["beginning", "now"] satisfies readonly ReaderStart[];
const NAME = /^[A-Za-z0-9._:@/-]{1,128}$/;

export class Subscriber implements Reader {
  readonly kind = "subscriber";
  readonly batchMax = 1;
  readonly name: string;
  readonly since: ReaderStart;
  readonly retry: RetryPolicy;
  readonly #events: ReadonlySet<string> | null;
  readonly #call: (event: BatchEvent, context: SinkContext) => void | Promise<void>;
  /** The delivery that is under way, or the last one. */
  #turn: Promise<void> = Promise.resolve();

  constructor(name: string, target: EventHandler | Sink, options: SubscribeOptions = {}) {
    const problems = new OptionProblems();
    const given = problems.readOptions(options, OPTIONS);
    if (typeof name !== "string" || !NAME.test(name)) {
      problems.add("its name must have 1 to 128 letters, digits or the characters . _ : @ / -");
    }
    const sink = isSink(target) ? target : null;
    if (sink === null && typeof target !== "function") {
      problems.add("it must be a function or a sink");
    }
    if (sink?.takesOnly === "messages") {
      problems.add(`a ${sink.kind} sink takes messages of a topic: give it to engine.consume`);
    }
    const events = problems.readEvents(given["events"]) ?? sink?.events ?? null;
    this.name = name;
    this.retry = problems.readRetry(
      given["attempts"],
      given["backoff"],
      sink?.retry ?? HANDLER_RETRY,
    );
    this.since = (given["since"] ?? "beginning") as ReaderStart;
    if (!STARTS.includes(this.since)) problems.add('since must be "beginning" or "now"');
    this.#events = events === null ? null : new Set(events);
    this.#call =
      sink === null
        ? (event) => (target as EventHandler)(event)
        : (event, context) => sink.deliver(event, context);
    const problem = problems.describe(`the subscriber ${JSON.stringify(name)}`);
    if (problem !== null) {
      throw new SluiceError("BAD_OPTION", problem, {
        field: "subscriber",
        hint: "Fix this in engine.subscribe().",
      });
    }
  }

  wants(type: string): boolean {
    return this.#events === null || this.#events.has(type);
  }

  /** Delivers one event after the delivery that is under way. */
  deliver([one]: readonly Delivery[], context: SinkContext): Promise<void> {
    const turn = this.#turn.then(() => this.#call(one?.open() as BatchEvent, context));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }
}

/** Checked by its shape: a configuration may load a second copy of the package. */
export function isSink(value: unknown): value is Sink {
  if (typeof value !== "object" || value === null) return false;
  const { kind, deliver, retry } = value as Partial<Sink>;
  return typeof kind === "string" && typeof deliver === "function" && typeof retry === "object";
}
