/**
 * Messages that items emit to topics: topic names, the ids by which a repeat is recognised, and the
 * message of an item that gave up to its errors topic. An id contains the item's drive but not the
 * attempt, so a worker that runs the item again after a crash emits the same ids.
 */
import { formatDidYouMean, findSimilar } from "../base/similar-words.ts";
import type { ChunkEffect, TrackedItem } from "../items/tracked-item.ts";

/** The body of one message, as JSON text. */
export const MESSAGE_CHARS_MAX = 1_048_576;
/** How many messages one attempt at an item may emit. */
export const MESSAGES_PER_ITEM_MAX = 1_000;
/** The total size of their bodies, which are written in one commit. */
export const EMITTED_CHARS_MAX = 16 * MESSAGE_CHARS_MAX;

const NAME = /^[A-Za-z0-9._-]{1,100}$/;

/** Topics and groups follow the same rule. */
export function isTopicName(value: unknown): value is string {
  return typeof value === "string" && NAME.test(value);
}

export const TOPIC_NAME_RULE = "must be 1 to 100 letters, digits, dots, dashes or underscores";

export interface NewMessage {
  readonly topic: string;
  /** The same id for every delivery, and for a repeated attempt. */
  readonly id: string;
  readonly batch: string;
  /** JSON text. */
  readonly body: string;
  readonly traceparent: string | null;
}

/** The chunk that messages come from. */
export interface MessageOrigin {
  readonly batch: string;
  readonly step: number;
  readonly stepName: string;
  /** The topic for items that give up; null for none. */
  readonly errorsTopic: string | null;
  /** The first item of the chunk. */
  readonly start: number;
}

/**
 * What must be written with an effect: messages that its items emitted, then those of items that
 * gave up.
 */
export function listMessages(
  origin: MessageOrigin,
  { messages, track }: Pick<ChunkEffect, "messages" | "track">,
): NewMessage[] {
  const { batch, errorsTopic } = origin;
  const written = messages.map(({ index, topic, nth, body, drive, traceparent = null }) => ({
    topic,
    id: nameMessage(origin, origin.start + index, drive, nth),
    batch,
    body,
    traceparent,
  }));
  if (errorsTopic === null) return written;
  const dead = track.filter((item) => item.dead).toSorted((a, b) => a.index - b.index);
  for (const item of dead) {
    written.push({
      topic: errorsTopic,
      id: nameMessage(origin, origin.start + item.index, item.drive, "error"),
      batch,
      body: JSON.stringify(describeDead(origin, item)),
      traceparent: null,
    });
  }
  return written;
}

/** Whether an effect may have messages to write. The step may have an errors topic. */
export function hasMessages({ messages, track }: Pick<ChunkEffect, "messages" | "track">): boolean {
  return messages.length > 0 || track.some(({ dead }) => dead);
}

/** The id of anything an item leaves: a message it emitted, its failure, or that it never ran. */
export function nameMessage(
  { batch, step }: Pick<MessageOrigin, "batch" | "step">,
  item: number,
  drive: number,
  what: number | string,
): string {
  return `${batch}/${step}/${item}/${drive}/${what}`;
}

function describeDead(
  { batch, stepName, start }: MessageOrigin,
  { index, key, drive, attempts, error }: TrackedItem,
): object {
  return {
    batch,
    step: stepName,
    item: start + index,
    key,
    drive,
    attempts,
    code: error?.code ?? null,
    class: error?.errorClass ?? null,
    message: error?.message ?? null,
  };
}

/** Why a step may not emit to a topic, with a suggestion. */
export function describeUnknownTopic(topic: unknown, declared: readonly string[]): string {
  const given = typeof topic === "string" ? JSON.stringify(topic.slice(0, 100)) : typeof topic;
  if (declared.length === 0) {
    return `there is no topic ${given}: the step declares none. Add topics: { emit: [${given}] } to it.`;
  }
  const meant = typeof topic === "string" ? formatDidYouMean(findSimilar(topic, declared)) : "";
  return `there is no topic ${given} in topics of the step. ${meant || `They are ${declared.join(", ")}.`}`;
}
