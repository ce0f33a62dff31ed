/**
 * Takes the messages of a topic: a handler or a sink with the name of a group, one message at a
 * time or several together. A handler that exceeds its time limit has failed: its messages are
 * delivered again.
 */
import { SluiceError, TransientError } from "../../core/base/errors.ts";
import { OptionProblems } from "../../core/events/option-problems.ts";
import { nameGroupReader } from "../../core/events/reader-name.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";
import { isTopicName, TOPIC_NAME_RULE } from "../../core/events/topic.ts";
import type { ReaderStart } from "../../ports/store/delivery-store.ts";
import type { Sink, SinkContext } from "../../ports/sink.ts";
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { Delivery } from "./stream.ts";
import { traceConsume } from "../observing/consume-trace.ts";
import { HANDLER_RETRY, isSink, type Reader } from "./subscriber.ts";

/** Handles one message, or a list where `batch` is set. */
type Handler<Delivered> = (
  delivered: Delivered,
  context: {
    /** Aborts at the time limit and when the engine has stopped: the messages will come again. */
    readonly signal: AbortSignal;
  },
) => void | Promise<void>;

export type MessageHandler = Handler<TopicMessage>;
export type MessagesHandler = Handler<readonly TopicMessage[]>;

export interface ConsumeOptions {
  /**
   * Deliver up to this many messages at once and acknowledge them together; the handler then gets a
   * list. Default one at a time.
   */
  readonly batch?: number;
  /** Attempts to deliver before a message is given up; default unlimited, or the sink's own. */
  readonly attempts?: number;
  /** Delay between two attempts; default 500 ms up to 30 s, or the sink's own. */
  readonly backoff?: { readonly baseMs?: number; readonly capMs?: number };
  /** Time limit of one delivery. Default 5 minutes. */
  readonly timeLimitMs?: number;
  /**
   * Where a new group begins: with the oldest message in the store (default), with the next one, or
   * after a position.
   */
  readonly since?: ReaderStart;
}

/** `engine.consume`: with `batch` the handler gets a list, without it one message. */
export interface Consume {
  (
    topic: string,
    group: string,
    target: MessageHandler | Sink,
    options?: ConsumeOptions & { readonly batch?: undefined },
  ): void;
  (
    topic: string,
    group: string,
    target: MessagesHandler | Sink,
    options: ConsumeOptions & { readonly batch: number },
  ): void;
}

const CONSUME_BATCH_MAX = 10_000;
const TIME_LIMIT_MS = 300_000;
const DAY_MS = 86_400_000;
const OPTIONS = ["batch", "attempts", "backoff", "timeLimitMs", "since"];

export class Consumer implements Reader {
  readonly kind = "consumer";
  /** The name of its durable reader. */
  readonly name: string;
  readonly since: ReaderStart;
  readonly retry: RetryPolicy;
  readonly batchMax: number;
  readonly #timeLimitMs: number;
  readonly #call: (messages: readonly TopicMessage[], context: SinkContext) => unknown;
  /** The delivery that is under way, or the last one. */
  #turn: Promise<void> = Promise.resolve();

  constructor(
    topic: string,
    group: string,
    target: MessageHandler | MessagesHandler | Sink,
    options: ConsumeOptions = {},
  ) {
    const problems = new OptionProblems();
    const given = problems.readOptions(options, OPTIONS);
    if (!isTopicName(topic)) problems.add(`its topic ${TOPIC_NAME_RULE}`);
    if (!isTopicName(group)) problems.add(`its group ${TOPIC_NAME_RULE}`);
    const sink = isSink(target) ? target : null;
    if (sink === null && typeof target !== "function") {
      problems.add("it must be a function or a sink");
    }
    this.name = nameGroupReader(topic, group);
    this.batchMax = problems.readWhole("batch", given["batch"], {
      min: 1,
      max: CONSUME_BATCH_MAX,
      fallback: 1,
    });
    this.retry = problems.readRetry(
      given["attempts"],
      given["backoff"],
      sink?.retry ?? HANDLER_RETRY,
    );
    this.#timeLimitMs = problems.readWhole("timeLimitMs", given["timeLimitMs"], {
      min: 1,
      max: DAY_MS,
      fallback: TIME_LIMIT_MS,
    });
    this.since = readSince(given["since"], problems);
    this.#call =
      sink === null
        ? makeHandlerCall(target as MessageHandler & MessagesHandler, given["batch"] !== undefined)
        : (messages, context) => deliverAll(sink, messages, context);
    const problem = problems.describe(`the consumer ${JSON.stringify(group)} of ${topic}`);
    if (problem !== null) {
      throw new SluiceError("BAD_OPTION", problem, {
        field: "consumer",
        hint: "Fix this in engine.consume().",
      });
    }
  }

  wants(): boolean {
    return true;
  }

  /** Delivers messages after the delivery that is under way. */
  deliver(deliveries: readonly Delivery[], context: SinkContext): Promise<void> {
    const turn = this.#turn.then(() => this.#callInTime(deliveries, context));
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  #callInTime(deliveries: readonly Delivery[], { clock, signal }: SinkContext): Promise<void> {
    const timeLimitMs = this.#timeLimitMs;
    const own = new AbortController();
    return new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        cancel();
        signal.removeEventListener("abort", abandon);
      };
      const abandon = (): void => own.abort(signal.reason);
      const cancel = clock.after(timeLimitMs, () => {
        leave();
        const late = new TransientError(`did not return within ${timeLimitMs} ms`, {
          code: "TIME_LIMIT",
        });
        reject(late);
        own.abort(late);
      });
      signal.addEventListener("abort", abandon);
      if (signal.aborted) abandon();
      const messages = deliveries.map(({ open }) => open() as TopicMessage);
      // In a promise, as a handler may throw synchronously.
      Promise.resolve()
        .then(() =>
          traceConsume(messages, () => this.#call(messages, { clock, signal: own.signal })),
        )
        .then(() => resolve(), reject)
        .finally(leave);
    });
  }
}

function makeHandlerCall(
  handler: MessageHandler & MessagesHandler,
  takesList: boolean,
): (messages: readonly TopicMessage[], context: SinkContext) => unknown {
  if (takesList) return (messages, { signal }) => handler(messages as never, { signal });
  // Without `batch` there is exactly one message.
  return ([message], { signal }) => handler(message as never, { signal });
}

/**
 * A sink that takes no lists gets messages one by one; a failure half-way repeats the first ones.
 */
async function deliverAll(
  sink: Sink,
  messages: readonly TopicMessage[],
  context: SinkContext,
): Promise<void> {
  if (sink.deliverAll !== undefined) return sink.deliverAll(messages, context);
  for (const message of messages) {
    context.signal.throwIfAborted();
    await sink.deliver(message, context);
  }
}

function readSince(value: unknown, problems: OptionProblems): ReaderStart {
  if (value === undefined) return "beginning";
  const isPosition = Number.isSafeInteger(value) && (value as number) >= 0;
  if (value === "beginning" || value === "now" || isPosition) return value as ReaderStart;
  problems.add('since must be "beginning", "now" or a position from 0 on');
  return "beginning";
}
