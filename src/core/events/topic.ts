/**
 * Messages that items leave in topics: what a topic may be called, the ids by which a repeat is
 * known, and what an item that gave up says to its errors topic. The ids hold the item's drive and
 * nothing of the attempt, so whoever runs an item again after a crash leaves the same ids.
 */
import { askDidYouMean, findSimilar } from "../base/similar-words.ts";
import type { ChunkEffect, TrackedItem } from "../items/tracked-item.ts";

/** The body of one message, as JSON text. */
export const MESSAGE_CHARS_MAX = 1_048_576;
/** What one attempt at an item may emit. */
export const MESSAGES_PER_ITEM_MAX = 1_000;
/** The bodies of all of them together, as they are written in one commit. */
export const EMITTED_CHARS_MAX = 16 * MESSAGE_CHARS_MAX;

const NAME = /^[A-Za-z0-9._-]{1,100}$/;

/** Topics and groups are called alike. */
export function isTopicName(value: unknown): value is string {
  return typeof value === "string" && NAME.test(value);
}

export const TOPIC_NAME_RULE = "must be 1 to 100 letters, digits, dots, dashes or underscores";

export interface NewMessage {
  readonly topic: string;
  /** The same for every delivery, and for what a repeat would leave. */
  readonly id: string;
  readonly batch: string;
  /** JSON text. */
  readonly body: string;
  readonly traceparent: string | null;
}

/** Where the messages of a chunk come from. */
export interface MessageOrigin {
  readonly batch: string;
  readonly step: number;
  readonly stepName: string;
  /** Where items that give up are told of; null for nowhere. */
  readonly errorsTopic: string | null;
  /** The first item of the chunk. */
  readonly start: number;
}

/** What must be written with an effect: what its items emitted, then the items that gave up. */
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

/** Whether an effect has anything to write, given that somebody may want to hear of errors. */
export function hasMessages({ messages, track }: Pick<ChunkEffect, "messages" | "track">): boolean {
  return messages.length > 0 || track.some(({ dead }) => dead);
}

/** The same for whatever else an item leaves: what it emitted, that it failed, that it never ran. */
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

/** Why a step may not emit to a topic, and which one was meant. */
export function describeUnknownTopic(topic: unknown, declared: readonly string[]): string {
  const given = typeof topic === "string" ? JSON.stringify(topic.slice(0, 100)) : typeof topic;
  if (declared.length === 0) {
    return `there is no topic ${given}: the step declares none. Add topics: { emit: [${given}] } to it.`;
  }
  const meant = typeof topic === "string" ? askDidYouMean(findSimilar(topic, declared)) : "";
  return `there is no topic ${given} in topics of the step. ${meant || `They are ${declared.join(", ")}.`}`;
}
