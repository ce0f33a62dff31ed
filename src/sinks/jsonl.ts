/**
 * Writes messages of topics to files, one line of JSON each: on disk before they are acknowledged,
 * in a part that gets its final name when it is large or old enough. A reader of files with a final
 * name never sees a partial file. After a crash the part is continued; messages that were not
 * acknowledged are written again, with the same ids.
 */
import { resolve } from "node:path";
import { describeError, PermanentError, TransientError } from "../core/base/errors.ts";
import { OptionProblems } from "../core/events/option-problems.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { Clock } from "../ports/clock.ts";
import type { Sink, SinkContext } from "../ports/sink.ts";
import type { TopicMessage } from "../ports/store/topic-message.ts";
import { type Delivered, isMessage, writeJson } from "./event-json.ts";
import { appendLines, finishPart, listParts, namePart, type Part } from "./jsonl-parts.ts";
import { type DeliveryOptions, throwIfBad } from "./sink-options.ts";

export interface JsonlSinkOptions extends Omit<DeliveryOptions, "events"> {
  /** Created if missing. Each group of a topic needs its own folder. */
  readonly folder: string;
  /** A part of this size is finished. Default 64 MiB. */
  readonly maxBytes?: number;
  /**
   * A part of this age is finished by the next message; the age restarts in a new process. Default
   * never.
   */
  readonly maxMs?: number;
}

const NAME = "jsonlSink";
const OPTIONS = ["attempts", "backoff", "folder", "maxBytes", "maxMs"];
const MAX_BYTES = 64 * 1_048_576;
const BYTES_LIMIT = 1_099_511_627_776;
const YEAR_MS = 365 * 86_400_000;
/** For a full disk or a folder without write access: messages are retried until that is fixed. */
const RETRY: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, baseMs: 500, capMs: 30_000 };

export function jsonlSink(options: JsonlSinkOptions): Sink {
  const problems = new OptionProblems();
  const given = problems.readOptions(options, OPTIONS);
  const { folder } = given;
  const isPath = typeof folder === "string" && folder !== "" && !folder.includes("\0");
  if (!isPath) problems.add("folder must be the path of a folder");
  const maxBytes = problems.readWhole("maxBytes", given["maxBytes"], {
    min: 1,
    max: BYTES_LIMIT,
    fallback: MAX_BYTES,
  });
  const rule = { min: 1, max: YEAR_MS, fallback: Number.POSITIVE_INFINITY };
  const maxMs = problems.readWhole("maxMs", given["maxMs"], rule);
  const retry = problems.readRetry(given["attempts"], given["backoff"], RETRY);
  throwIfBad(problems, NAME);
  // Absolute, so that a later change of directory has no effect.
  return new JsonlSink({ folder: resolve(folder as string), maxBytes, maxMs }, retry);
}

interface JsonlFacts {
  readonly folder: string;
  readonly maxBytes: number;
  readonly maxMs: number;
}

class JsonlSink implements Sink {
  readonly kind = "jsonl";
  readonly target: string;
  readonly events = null;
  readonly takesOnly = "messages";
  readonly retry: RetryPolicy;
  readonly #facts: JsonlFacts;
  /** When each part started growing in this process, on the monotonic clock, by its path. */
  readonly #begunAt = new Map<string, number>();

  constructor(facts: JsonlFacts, retry: RetryPolicy) {
    this.target = facts.folder;
    this.retry = retry;
    this.#facts = facts;
  }

  async deliver(event: Delivered, context: SinkContext): Promise<void> {
    if (isMessage(event)) return this.deliverAll([event], context);
    throw new PermanentError(`${NAME} accepts only messages of topics, not events`, {
      code: "UNKNOWN_EVENT",
    });
  }

  async deliverAll(messages: readonly TopicMessage[], { clock }: SinkContext): Promise<void> {
    const [first] = messages;
    if (first === undefined) return;
    const { folder, maxBytes } = this.#facts;
    try {
      const part = await this.#findPart(first, clock);
      const lines = messages.map((message) => `${writeJson(message)}\n`).join("");
      const size = await appendLines(folder, part, lines);
      // The lines are safe: if the part cannot be finished now, the next message reports why.
      if (size >= maxBytes) await this.#finish(first.topic, part).catch(() => undefined);
    } catch (error) {
      throw explain(error, folder);
    }
  }

  /** The growing part; a large or old one is finished first. */
  async #findPart({ topic, position }: TopicMessage, clock: Clock): Promise<Part> {
    const { folder, maxBytes, maxMs } = this.#facts;
    const parts = await listParts(folder, topic);
    const last = parts.pop();
    for (const forgotten of parts) await this.#finish(topic, forgotten);
    const now = clock.monotonicMs();
    if (last !== undefined) {
      const begunAt = this.#begunAt.get(last.path) ?? now;
      this.#begunAt.set(last.path, begunAt);
      const isDue = now - begunAt >= maxMs || last.size >= maxBytes;
      if (!isDue) return last;
      await this.#finish(topic, last);
    }
    const part = namePart(folder, topic, position);
    this.#begunAt.set(part.path, now);
    return part;
  }

  async #finish(topic: string, part: Part): Promise<void> {
    await finishPart(this.#facts.folder, topic, part);
    this.#begunAt.delete(part.path);
  }
}

/** What a person can do about it; the messages wait in any case. */
function explain(error: unknown, folder: string): Error {
  const { code, message } = describeError(error);
  const why = REASONS[code];
  const problem = why === undefined ? message : `${why} (${code})`;
  return new TransientError(`${folder} cannot be written: ${problem}`, { code, cause: error });
}

const REASONS: { readonly [code: string]: string | undefined } = {
  ENOSPC: "the disk is full",
  EDQUOT: "the quota is used up",
  EROFS: "it is on a read-only disk",
  EACCES: "this user may not write there",
  EPERM: "this user may not write there",
  ENOTDIR: "part of the path is a file",
  EEXIST: "part of the path is a file",
  EIO: "the disk fails",
};
