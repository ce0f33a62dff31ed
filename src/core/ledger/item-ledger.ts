/**
 * What the ledger says about items, in pipelines that ask for it. Every change of a chunk is one
 * link in its batch's chain. The store writes it from its own change: outcomes as ranges, failed
 * attempts one by one. What handlers recorded is stored in a block of lines; the link contains the
 * root of their tree: see docs/decisions/0030-ledger-blocks.md.
 */
import { type BatchRecord, ITEMS_RECORDED } from "../batch/batch.ts";
import type { Json } from "../base/canonical-json.ts";
import {
  FAILED,
  getOutcome,
  type OutcomeCode,
  type OutcomeMap,
  PENDING,
  SKIPPED,
  SUCCEEDED,
} from "../items/outcome-map.ts";
import type { ChunkEffect, StoredChunk, TrackedItem } from "../items/tracked-item.ts";

/** Lines that a worker collected for one chunk; immutable once made. */
export interface LedgerBlock {
  /** Counts from 1 under each lease, so that a repeated block is written once. */
  readonly number: number;
  /** Lines in it. */
  readonly count: number;
  /** The tree hash over its lines, in hexadecimal. */
  readonly root: string;
  /** Canonical JSON, one record a line. */
  readonly lines: string;
  /** What may be erased later without changing the chain; null for none. */
  readonly details: string | null;
}

/** A chunk, and the worker that held it when it changed. */
export interface ChunkPlace {
  readonly step: number;
  readonly chunk: number;
  /** The number of its first item. */
  readonly start: number;
  readonly fence: number;
  /** Null where no worker holds it. */
  readonly worker: number | null;
}

/** Why a chunk changes: its worker reported, its lease expired, or no worker leased it. */
export type ChangeCause = "reported" | "lost" | "stalled";

/** How many failed attempts one link lists: those of a large chunk would make the line too long. */
export const TRIES_PER_LINK = 1_000;

/** The link for a change of a chunk. */
export interface ItemsRecord {
  readonly type: typeof ITEMS_RECORDED;
  readonly data: BatchRecord["data"];
}

/** A link, and the block whose root it contains. */
export interface ItemsLink {
  readonly record: ItemsRecord;
  readonly block: LedgerBlock | null;
}

/**
 * The links for a change of a chunk, in order; none when nothing changed. A link has one block. The
 * newest block comes with the change; blocks that were too late for an earlier link come before it,
 * so that an item's states precede the outcome that they led to. Failed attempts that do not fit
 * follow in further links.
 */
export function describeChange(
  place: ChunkPlace,
  stored: StoredChunk,
  effect: ChunkEffect,
  cause: ChangeCause,
  blocks: readonly LedgerBlock[] = [],
): ItemsLink[] {
  const newest = blocks.at(-1) ?? null;
  const late = blocks.slice(0, -1).map((block) => makeLink(place, {}, block));
  const [first = null, ...rest] = listChanges(place, stored, effect, cause);
  if (first === null && newest === null) return late;
  const behind = rest.map((changes) => makeLink(place, changes, null));
  return [...late, makeLink(place, first, newest), ...behind];
}

/** The link for dead letters that have a new drive. */
export function describeRedriven(
  place: ChunkPlace,
  before: OutcomeMap,
  after: OutcomeMap,
  drive: number,
): ItemsLink {
  const items = before.length << 2;
  const isRedriven = (index: number): boolean =>
    getOutcome(before, index) === FAILED && getOutcome(after, index) === PENDING;
  const redriven = listRanges(items, isRedriven, place.start);
  return makeLink(place, { redriven, drive }, null);
}

type Changes = { readonly [name: string]: Json | undefined };

/** In parts; none when no item changed. A lost lease always gets a link. */
function listChanges(
  { start }: ChunkPlace,
  stored: StoredChunk,
  effect: ChunkEffect,
  cause: ChangeCause,
): Changes[] {
  const before = new Map(stored.tracked.map((item) => [item.index, item]));
  // Sorted by position: the order in which a store holds tracked items must not show in a chain.
  const tried = effect.track
    .filter((item) => isNewTry(item, before.get(item.index)))
    .toSorted((one, other) => one.index - other.index);
  const describe = (item: TrackedItem): Json => describeTry(item, before.get(item.index), start);
  const list = (code: OutcomeCode): string | undefined =>
    listRanges(stored.items, (index) => isNewOutcome(stored, effect, index, code), start);
  const shared = { cause: cause === "reported" ? undefined : cause };
  const listTries = (from: number): Changes => {
    const part = tried.slice(from, from + TRIES_PER_LINK);
    return {
      failed: orNothing(part.filter(({ dead }) => dead).map(describe)),
      retried: orNothing(part.filter(({ dead }) => !dead).map(describe)),
      ...shared,
    };
  };
  const first: Changes = { succeeded: list(SUCCEEDED), skipped: list(SKIPPED), ...listTries(0) };
  if (Object.values(first).every((change) => change === undefined)) return [];
  const parts = [first];
  for (let from = TRIES_PER_LINK; from < tried.length; from += TRIES_PER_LINK) {
    parts.push(listTries(from));
  }
  return parts;
}

function makeLink(
  { step, chunk, fence, worker }: ChunkPlace,
  changes: Changes | null,
  block: LedgerBlock | null,
): ItemsLink {
  const data = {
    step,
    chunk,
    fence,
    ...(worker !== null && { worker }),
    ...changes,
    ...(block !== null && { block: describeBlock(block) }),
  };
  return { record: { type: ITEMS_RECORDED, data }, block };
}

function describeBlock({ number, count, root }: LedgerBlock): Json {
  return { number, count, root };
}

/** A new failed attempt: by itself, or with the worker that ran it. */
function isNewTry(item: TrackedItem, before: TrackedItem | undefined): boolean {
  if (item.dead) return before?.dead !== true;
  const { attempts = 0, deaths = 0 } = before ?? {};
  return item.attempts > attempts || item.deaths > deaths;
}

function describeTry(item: TrackedItem, before: TrackedItem | undefined, start: number): Json {
  const { index, key, attempts, deaths, drive } = item;
  // An item that dies with its worker has no error of its own: the stored one is from an earlier
  // attempt.
  const hasDied = !item.dead && deaths > (before?.deaths ?? 0);
  const error = hasDied ? null : item.error;
  return {
    item: start + index,
    // An ill-formed error code from a handler must not prevent its report.
    key: key?.toWellFormed() ?? null,
    attempts,
    ...(deaths > 0 && { deaths }),
    ...(drive > 1 && { drive }),
    code: error?.code.toWellFormed() ?? null,
    class: error?.errorClass ?? null,
  };
}

function orNothing(list: readonly Json[]): Json | undefined {
  return list.length === 0 ? undefined : list;
}

function isNewOutcome(
  stored: StoredChunk,
  effect: ChunkEffect,
  index: number,
  code: OutcomeCode,
): boolean {
  return (
    getOutcome(effect.outcomes, index) === code && getOutcome(stored.outcomes, index) === PENDING
  );
}

/** The items of a chunk that a test selects, as `0-999,1003`; undefined for none. */
function listRanges(
  items: number,
  holds: (index: number) => boolean,
  start: number,
): string | undefined {
  const ranges: string[] = [];
  let first = -1;
  for (let index = 0; index <= items; index++) {
    const isIn = index < items && holds(index);
    if (isIn && first === -1) first = index;
    if (isIn || first === -1) continue;
    const last = index - 1;
    ranges.push(first === last ? `${start + first}` : `${start + first}-${start + last}`);
    first = -1;
  }
  return ranges.length === 0 ? undefined : ranges.join(",");
}

/** The items of ranges in the format above. */
export function* readRanges(text: string): Generator<readonly [first: number, last: number]> {
  for (const range of text.split(",")) {
    const [first = "", last = first] = range.split("-");
    yield [Number(first), Number(last)];
  }
}

/**
 * The size of one page of a ledger with links and blocks, in characters; a page has at least one
 * link.
 */
export const LEDGER_PAGE_CHARS = 4_000_000;

/** The size of a link within a page. */
export function measureLink(
  body: string,
  block: { readonly lines: string; readonly details: string | null } | null,
): number {
  return body.length + (block?.lines.length ?? 0) + (block?.details?.length ?? 0);
}
