/** A worker's report in the words of a test, and chunks to report on. */
import type { ErrorClass } from "../../src/core/base/errors.ts";
import type { ItemStatement } from "../../src/core/items/item-commit.ts";
import type { LedgerBlock } from "../../src/core/ledger/item-ledger.ts";
import type { PlannedChunk } from "../../src/ports/store/conductor-store.ts";
import type { LeasedChunk, Report } from "../../src/ports/store/worker-store.ts";
import { toMap, toWords, type Word } from "../support/outcome-words.ts";

/** What an item's history says of one that was never redriven and has no checkpoint. */
export const FIRST_DRIVE = { checkpoint: null, drive: 1 } as const;

/** What a worker says of its chunk. Positions count from the start of the chunk. */
export interface Said {
  readonly limitWait?: Report["limitWait"];
  readonly succeeded?: readonly number[];
  readonly skipped?: readonly number[];
  /** Gave up: a dead letter each. */
  readonly failed?: readonly number[];
  /** Tried and waits: position to delay. */
  readonly retryInMs?: Readonly<Record<number, number>>;
  /** Position to JSON text; the item is among `succeeded` as well. */
  readonly results?: Readonly<Record<number, string>>;
  readonly starting?: readonly number[];
  readonly intent?: Report["intent"];
  /** The map that the worker builds upon, if not the one that it was given with its lease. */
  readonly upon?: Uint8Array;
  readonly attempts?: number;
  /** Of what failed: a permanent `BAD_INPUT` unless it is said otherwise. */
  readonly errorClass?: ErrorClass;
  readonly code?: string;
  /** Has nothing to do yet: position to delay. */
  readonly deferInMs?: Readonly<Record<number, number>>;
  /** Position to the name of the stage that it has passed; its data is the name in quotes. */
  readonly checkpoints?: Readonly<Record<number, string>>;
  /** Position to content. */
  readonly contents?: Readonly<Record<number, string>>;
  /** Position to the topics that it emits to; the body is the topic and the message's number. */
  readonly emits?: Readonly<Record<number, readonly string[]>>;
  /** Position to what it wants done with its outcome. */
  readonly commits?: Readonly<Record<number, readonly ItemStatement[]>>;
  /** When such an item is tried again; 0 unless it is said otherwise, null for never. */
  readonly commitRetryInMs?: number | null;
  readonly abandoned?: readonly number[];
  /** What its handlers recorded, where the batch keeps a ledger of items. */
  readonly blocks?: readonly LedgerBlock[];
  /** Handler time under the lease so far. */
  readonly busyMs?: number;
}

/** A report in the words of a test. Without an intent the rest is given back. */
export function say(lease: LeasedChunk, said: Said): Report {
  const { batch, step, chunk, fence } = lease;
  const words = toWords(said.upon ?? lease.outcomes, lease.end - lease.start);
  const mark = (positions: readonly number[] | undefined, word: Word): void => {
    for (const position of positions ?? []) words[position] = word;
  };
  mark(said.succeeded, "succeeded");
  mark(said.skipped, "skipped");
  mark(said.failed, "failed");
  const attempts = said.attempts ?? 1;
  const nameKey = (index: number): string => `key-${lease.start + index}`;
  const fail = (index: number, retryInMs: number | null): Report["failures"][number] => ({
    index,
    key: nameKey(index),
    attempts,
    errorClass: said.errorClass ?? (retryInMs === null ? "permanent" : "transient"),
    code: said.code ?? (retryInMs === null ? "BAD_INPUT" : "ECONNRESET"),
    message: `item ${lease.start + index} failed`,
    retryInMs,
  });
  return {
    batch,
    step,
    chunk,
    fence,
    outcomes: toMap(words),
    busyMs: said.busyMs ?? 0,
    failures: [
      ...(said.failed ?? []).map((index) => fail(index, null)),
      ...entriesOf(said.retryInMs).map(([index, ms]) => fail(index, ms)),
    ],
    results: entriesOf(said.results).map(([index, value]) => ({
      index,
      key: nameKey(index),
      value,
    })),
    deferrals: entriesOf(said.deferInMs).map(([index, inMs]) => ({
      index,
      key: nameKey(index),
      inMs,
    })),
    checkpoints: entriesOf(said.checkpoints).map(([index, name]) => ({
      index,
      key: nameKey(index),
      name,
      data: JSON.stringify(name),
    })),
    contents: entriesOf(said.contents).map(([index, content]) => ({ index, content })),
    messages: entriesOf(said.emits).flatMap(([index, topics]) =>
      topics.map((topic, nth) => ({ index, topic, nth, body: `"${topic} ${nth}"` })),
    ),
    commits: entriesOf(said.commits).map(([index, statements]) => ({
      index,
      key: nameKey(index),
      attempts,
      retryInMs: said.commitRetryInMs === undefined ? 0 : said.commitRetryInMs,
      statements,
    })),
    abandoned: said.abandoned ?? [],
    limitWait: said.limitWait ?? null,
    starting: said.starting ?? [],
    intent: said.intent ?? "yield",
    ...(lease.ledger === true && { ledger: { blocks: said.blocks ?? [] } }),
  };
}

function entriesOf<T>(byPosition: Readonly<Record<number, T>> = {}): [number, T][] {
  return Object.entries(byPosition).map(([position, one]) => [Number(position), one]);
}

/** Every position of a chunk. */
export function allOf(lease: LeasedChunk): number[] {
  return Array.from({ length: lease.end - lease.start }, (_, position) => position);
}

export function wordsOf(lease: LeasedChunk): Word[] {
  return toWords(lease.outcomes, lease.end - lease.start);
}

/** Chunks of these sizes, each with a manifest of its own. */
export function manifests(...sizes: readonly number[]): PlannedChunk[] {
  return sizes.map((items, chunk) => ({
    items,
    locator: null,
    manifest: new TextEncoder().encode(`${chunk}:${items}`),
    keys: null,
  }));
}
