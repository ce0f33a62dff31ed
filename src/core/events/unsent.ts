/**
 * The items that a stopped batch never ran: one message for each, written a few at a time after the
 * end, so that the end itself costs the same however many are left.
 */
import { getOutcome, type OutcomeMap, PENDING } from "../items/outcome-map.ts";
import { isUnreadable } from "../items/frozen-line.ts";
import { nameMessage, type NewMessage } from "./topic.ts";

export interface UnsentOrigin {
  readonly batch: string;
  readonly step: number;
  readonly stepName: string;
  readonly topic: string;
  /** The drive in which the batch was stopped. */
  readonly drive: number;
}

export interface UnsentChunk {
  readonly start: number;
  readonly end: number;
  readonly outcomes: OutcomeMap;
  /** Its items as JSON lines, where the batch owns them. */
  readonly readLines: () => readonly string[] | null;
}

/** Messages in one commit. */
export const UNSENT_PER_COMMIT = 1_000;

export interface UnsentPage {
  readonly messages: readonly NewMessage[];
  /** The last item that was checked; null when all were. */
  readonly next: number | null;
}

/** Chunks in order, beginning with the one that contains the item after `afterItem`. */
export function listUnsent(
  origin: UnsentOrigin,
  chunks: Iterable<UnsentChunk>,
  afterItem: number,
): UnsentPage {
  const messages: NewMessage[] = [];
  for (const { start, end, outcomes, readLines } of chunks) {
    let lines: readonly string[] | null | undefined;
    for (let item = Math.max(start, afterItem + 1); item < end; item++) {
      if (getOutcome(outcomes, item - start) !== PENDING) continue;
      if (messages.length >= UNSENT_PER_COMMIT) return { messages, next: item - 1 };
      lines ??= readLines();
      messages.push(describeUnsent(origin, item, lines?.[item - start]));
    }
  }
  return { messages, next: null };
}

function describeUnsent(origin: UnsentOrigin, item: number, line: string | undefined): NewMessage {
  const { batch, step, stepName, topic, drive } = origin;
  const isReadable = line !== undefined && !isUnreadable(line);
  const value = isReadable ? `,"value":${line}` : "";
  return {
    topic,
    id: nameMessage({ batch, step }, item, drive, "unsent"),
    batch,
    body: `{"batch":${JSON.stringify(batch)},"step":${JSON.stringify(stepName)},"item":${item}${value}}`,
    traceparent: null,
  };
}
