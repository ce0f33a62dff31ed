/** A worker's report in the words of a test, and chunks to report on. */
import type { ErrorClass } from "../../src/core/base/errors.ts";
import type { ItemStatement } from "../../src/core/items/item-commit.ts";
import type { LedgerBlock } from "../../src/core/ledger/item-ledger.ts";
import type { PlannedChunk } from "../../src/ports/store/conductor-store.ts";
import type { LeasedChunk, Report } from "../../src/ports/store/worker-store.ts";
import { toMap, toWords, type Word } from "../support/outcome-words.ts";

/** The history of an item that was never redriven and has no checkpoint. */
export const FIRST_DRIVE = { checkpoint: null, drive: 1 } as const;

/** A worker's report on its chunk. Positions count from the start of the chunk. */
export interface Said {
  readonly limitWait?: Report["limitWait"];
  readonly succeeded?: readonly number[];
  readonly skipped?: readonly number[];
  /** Items that gave up: a dead letter each. */
  readonly failed?: readonly number[];
  /** Items that ran and wait for a retry: position to delay. */
  readonly retryInMs?: Readonly<Record<number, number>>;
  /** Position to JSON text. The item is among `succeeded` as well. */
  readonly results?: Readonly<Record<number, string>>;
  readonly starting?: readonly number[];
  readonly intent?: Report["intent"];
  /** The map that the worker builds on, if it is not the map of its lease. */
  readonly upon?: Uint8Array;
  readonly attempts?: number;
  /** For failed items: a permanent `BAD_INPUT` unless stated otherwise. */
  readonly errorClass?: ErrorClass;
  readonly code?: string;
  /** Deferred items: position to delay. */
  readonly deferInMs?: Readonly<Record<number, number>>;
  /** Position to the name of the last checkpoint. The data is the name in quotes. */
  readonly checkpoints?: Readonly<Record<number, string>>;
  /** Position to content. */
  readonly contents?: Readonly<Record<number, string>>;
  /** Position to the topics of its messages. The body is the topic and the message's number. */
  readonly emits?: Readonly<Record<number, readonly string[]>>;
  /** Position to the statements that are committed with its outcome. */
  readonly commits?: Readonly<Record<number, readonly ItemStatement[]>>;
  /** The delay of the retry of such an item: 0 unless stated otherwise, null for no retry. */
  readonly commitRetryInMs?: number | null;
  readonly abandoned?: readonly number[];
  /** The blocks that its handlers recorded, if the batch keeps a ledger of items. */
  readonly blocks?: readonly LedgerBlock[];
  /** Handler time under the lease until now. */
  readonly busyMs?: number;
}

/** A report in the words of a test. Without an intent the unfinished items are given back. */
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

/** All positions of a chunk. */
export function allOf(lease: LeasedChunk): number[] {
  return Array.from({ length: lease.end - lease.start }, (_, position) => position);
}

export function wordsOf(lease: LeasedChunk): Word[] {
  return toWords(lease.outcomes, lease.end - lease.start);
}

/** Chunks of these sizes, each with its own manifest. */
export function manifests(...sizes: readonly number[]): PlannedChunk[] {
  return sizes.map((items, chunk) => ({
    items,
    locator: null,
    manifest: new TextEncoder().encode(`${chunk}:${items}`),
    keys: null,
  }));
}
