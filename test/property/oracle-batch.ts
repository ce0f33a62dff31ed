/** What the oracle remembers of a batch, and how that reads as the answers of a store. */
import type { ActResult, BatchSnapshot, Submission } from "../../src/ports/conducting.ts";
import type { DeadLetter, StoredResult } from "../../src/ports/reading.ts";
import type { LeasedChunk } from "../../src/ports/working.ts";
import { toMap, type Word } from "../support/outcome-words.ts";

export interface Item {
  word: Word;
  attempts: number;
  deaths: number;
  /** Its start was written, its end not. */
  started: boolean;
  dueAt: number;
  key: string | null;
  letter: DeadLetter | null;
}

export interface Chunk {
  readonly start: number;
  readonly items: Item[];
  readonly part: string;
  readonly locator: string | null;
  phase: "planned" | "leased" | "waiting" | "over";
  fence: number;
  until: number;
  dueAt: number;
  careful: boolean;
}

export type Ending = "succeeded" | "completed_with_errors" | "failed" | "expired";

export interface Batch {
  readonly asked: Submission;
  readonly submittedAt: number;
  state: "submitted" | "slicing" | "running" | Ending;
  sealed: boolean;
  startedAt: number | null;
  endedAt: number | null;
  reason: { code: string; message: string } | null;
  cursor: string | null;
  sliceFence: number;
  chunks: Chunk[];
  readonly keys: Map<string, number>;
  readonly results: Map<number, StoredResult>;
  readonly records: { type: string; at: string; data: object }[];
}

export const itemsOf = (batch: Batch): Item[] => batch.chunks.flatMap(({ items }) => items);
export const hasEnded = (batch: Batch): boolean => batch.endedAt !== null;

export function makeItem(): Item {
  return {
    word: "pending",
    attempts: 0,
    deaths: 0,
    started: false,
    dueAt: 0,
    key: null,
    letter: null,
  };
}

/** The store remembers something of it. */
export function isKnown({ attempts, deaths, started }: Item): boolean {
  return attempts > 0 || deaths > 0 || started;
}

export const done = (batch: Batch): ActResult => ({ kind: "done", batch: describe(batch) });
export const movedOn = (batch: Batch): ActResult & { kind: "moved_on" } => ({
  kind: "moved_on",
  batch: describe(batch),
});

export function describe(batch: Batch): BatchSnapshot {
  const { id, pipeline, version, lane, key, input, open, settings } = batch.asked;
  const { state, sealed, cursor, sliceFence, reason, submittedAt, startedAt, endedAt } = batch;
  const words = itemsOf(batch).map(({ word }) => word);
  const count = (word: Word): number => words.filter((one) => one === word).length;
  const left = count("pending");
  return {
    id,
    pipeline,
    version,
    lane,
    key,
    input,
    open,
    settings,
    state,
    sealed,
    counts: {
      planned: words.length,
      succeeded: count("succeeded"),
      skipped: count("skipped"),
      failed: count("failed"),
      cancelled: hasEnded(batch) ? left : 0,
      pending: hasEnded(batch) ? 0 : left,
    },
    chunks: batch.chunks.length,
    sliceCursor: cursor,
    sliceFence,
    reason,
    submittedAt,
    startedAt,
    endedAt,
  };
}

export function describeLease(batch: Batch, chunk: Chunk, now: number): LeasedChunk {
  const { start, items, fence, locator, careful } = chunk;
  const known = [...items.entries()].filter(([, item]) => item.word === "pending" && isKnown(item));
  return {
    batch: batch.asked.id,
    step: 0,
    chunk: batch.chunks.indexOf(chunk),
    fence,
    start,
    end: start + items.length,
    locator,
    outcomes: toMap(items.map(({ word }) => word)),
    histories: known.map(([index, { attempts, deaths, dueAt }]) => ({
      index,
      attempts,
      deaths,
      dueInMs: Math.max(0, dueAt - now),
    })),
    careful,
  };
}
