/** The oracle's state of a batch, and how it reads as the answers of a store. */
import type {
  ActResult,
  BatchSnapshot,
  Submission,
} from "../../src/ports/store/conductor-store.ts";
import type { DeadLetter, StoredResult } from "../../src/ports/store/query-store.ts";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { toMap, type Word } from "../support/outcome-words.ts";

export interface Item {
  word: Word;
  attempts: number;
  deaths: number;
  /** Its start was written, its end was not. */
  started: boolean;
  dueAt: number;
  key: string | null;
  /** 1, or the drive of its last redrive. */
  drive: number;
  letter: DeadLetter | null;
}

export interface Chunk {
  readonly start: number;
  readonly items: Item[];
  readonly part: string;
  readonly locator: string | null;
  phase: "planned" | "leased" | "waiting" | "over" | "cancelled";
  fence: number;
  until: number;
  dueAt: number;
  guarded: boolean;
}

export interface Step {
  readonly settings: Submission["settings"]["steps"][number];
  chunks: Chunk[];
  /** How many of them earlier drives planned. */
  base: number;
  cursor: string | null;
  sliceFence: number;
  /** Whether its plan is complete, and the drive in which it was completed. */
  sliced: boolean;
  slicedDrive: number;
  passes: number;
  readonly keys: Map<string, number>;
  readonly results: Map<number, StoredResult>;
}

export type Ending = "succeeded" | "completed_with_errors" | "failed" | "expired" | "cancelled";

export interface Batch {
  readonly asked: Submission;
  readonly submittedAt: number;
  state: "submitted" | "slicing" | "ready" | "running" | Ending;
  active: boolean;
  sealed: boolean;
  startedAt: number | null;
  endedAt: number | null;
  deadlineAt: number | null;
  reason: { code: string; message: string } | null;
  parked: { code: string; message: string } | null;
  cancel: { mode: "drain" | "now"; by: string; why: string | null; requestedAt: number } | null;
  drive: number;
  sinceDrive: number;
  step: number;
  readonly steps: Step[];
  /** Chunks that were lost or given back with running handlers during a cancel: `step/chunk`. */
  readonly abandoned: Map<string, number[] | null>;
  readonly records: { type: string; at: string; data: object }[];
}

export interface Pause {
  readonly scope: "batch" | "lane" | "pipeline";
  readonly name: string;
  readonly mode: "drain" | "now";
  readonly by: string;
  readonly why: string | null;
}

export const stepOf = (batch: Batch): Step => batch.steps[batch.step]!;
export const itemsOf = ({ chunks }: Step): Item[] => chunks.flatMap(({ items }) => items);
export const hasEnded = (batch: Batch): boolean => batch.endedAt !== null;
export const pendingOf = (step: Step): number =>
  itemsOf(step).filter(({ word }) => word === "pending").length;
export const hasLeases = ({ steps }: Batch): boolean =>
  steps.some(({ chunks }) => chunks.some(({ phase }) => phase === "leased"));
export const lettersOf = (step: Step): DeadLetter[] =>
  itemsOf(step).flatMap(({ letter }) => (letter === null ? [] : [letter]));

export function makeItem(): Item {
  return {
    word: "pending",
    attempts: 0,
    deaths: 0,
    started: false,
    dueAt: 0,
    key: null,
    drive: 1,
    letter: null,
  };
}

export function makeStep(settings: Step["settings"]): Step {
  return {
    settings,
    chunks: [],
    base: 0,
    cursor: null,
    sliceFence: 0,
    sliced: false,
    slicedDrive: 0,
    passes: 0,
    keys: new Map(),
    results: new Map(),
  };
}

/** The store has a row for it. */
export function isKnown({ attempts, deaths, started, drive }: Item): boolean {
  return attempts > 0 || deaths > 0 || started || drive > 1;
}

/** The counts of a step; what is left of an ended batch is cancelled. */
export function countStep(batch: Batch, step: Step): BatchSnapshot["counts"] {
  const words = itemsOf(step).map(({ word }) => word);
  const count = (word: Word): number => words.filter((one) => one === word).length;
  const left = count("pending");
  return {
    planned: words.length,
    succeeded: count("succeeded"),
    skipped: count("skipped"),
    failed: count("failed"),
    cancelled: hasEnded(batch) ? left : 0,
    pending: hasEnded(batch) ? 0 : left,
  };
}

export function countAll(batch: Batch): BatchSnapshot["counts"] {
  const sum = { planned: 0, succeeded: 0, skipped: 0, failed: 0, cancelled: 0, pending: 0 };
  for (const step of batch.steps) {
    const counts = countStep(batch, step);
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += counts[name];
  }
  return sum;
}

export function describe(batch: Batch, pause: Pause | null): BatchSnapshot {
  const { id, pipeline, version, lane, key, input, open, settings } = batch.asked;
  const { state, active, sealed, reason, parked, cancel, drive, sinceDrive, deadlineAt } = batch;
  const { cursor, sliceFence, chunks } = stepOf(batch);
  return {
    id,
    pipeline,
    version,
    lane,
    tenant: batch.asked.tenant ?? lane,
    key,
    input,
    open,
    settings,
    state,
    active,
    sealed,
    step: batch.step,
    steps: batch.steps.map((step) => ({
      name: step.settings.name,
      counts: countStep(batch, step),
      chunks: step.chunks.length,
      passes: step.passes,
    })),
    counts: countAll(batch),
    chunks: chunks.length,
    sliceCursor: cursor,
    sliceFence,
    reason,
    pause,
    parked,
    cancel,
    drive,
    sinceDrive,
    deadlineAt,
    pruned: false,
    submittedAt: batch.submittedAt,
    startedAt: batch.startedAt,
    endedAt: batch.endedAt,
  };
}

export function describeLease(batch: Batch, chunk: Chunk, now: number): LeasedChunk {
  const { start, items, fence, locator, guarded } = chunk;
  const step = stepOf(batch);
  const known = [...items.entries()].filter(([, item]) => item.word === "pending" && isKnown(item));
  return {
    batch: batch.asked.id,
    step: batch.step,
    chunk: step.chunks.indexOf(chunk),
    fence,
    start,
    end: start + items.length,
    locator,
    outcomes: toMap(items.map(({ word }) => word)),
    histories: known.map(([index, { attempts, deaths, dueAt, drive }]) => ({
      index,
      attempts,
      deaths,
      dueInMs: Math.max(0, dueAt - now),
      checkpoint: null,
      drive,
    })),
    overrides: [],
    guarded,
    final: step.passes >= step.settings.maxRedrives,
  };
}

export type Done = ActResult & { kind: "done" };
export type MovedOn = ActResult & { kind: "moved_on" };
