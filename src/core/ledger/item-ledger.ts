/**
 * What the ledger says about items, in pipelines that ask for it. Every change of a chunk is one link
 * in its batch's chain, written by the store from what it changes itself: outcomes as ranges, failed
 * attempts one by one. What handlers recorded comes beside it as a block of lines, of which the link
 * holds the root of their tree: see docs/decisions/0030-ledger-blocks.md.
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

/** Lines that a worker gathered for one chunk; once made it never changes. */
export interface LedgerBlock {
  /** From 1 on under each lease, so that a block that comes twice is written once. */
  readonly number: number;
  /** Lines in it. */
  readonly count: number;
  /** The tree hash over its lines, in hexadecimal. */
  readonly root: string;
  /** Canonical JSON, one record a line. */
  readonly lines: string;
  /** What may be erased later, apart from the chain; null when there is nothing. */
  readonly details: string | null;
}

/** A chunk, and who had it when it changed. */
export interface ChunkPlace {
  readonly step: number;
  readonly chunk: number;
  /** The number of its first item. */
  readonly start: number;
  readonly fence: number;
  /** Null where nobody has it. */
  readonly worker: number | null;
}

/** Why a chunk changes: its worker says so, its lease ran out, or nobody took it up. */
export type ChangeCause = "reported" | "lost" | "stalled";

/** So many attempts that ended badly are told in one link: those of a large chunk would be no line. */
export const TRIES_PER_LINK = 1_000;

/** What stands in the chain for a change of a chunk. */
export interface ItemsRecord {
  readonly type: typeof ITEMS_RECORDED;
  readonly data: BatchRecord["data"];
}

/** A link, and the block that it holds the root of. */
export interface ItemsLink {
  readonly record: ItemsRecord;
  readonly block: LedgerBlock | null;
}

/**
 * The links for a change of a chunk, in order; none when there is nothing to say. A link holds one
 * block. The newest comes with the change, and what came too late to go with an earlier one goes
 * before it: an item's states stand before the outcome that they led to. Of many attempts that ended
 * badly the rest is told behind it.
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

/** In parts; none when nothing of its items changed. That a lease was lost is worth a link in any case. */
function listChanges(
  { start }: ChunkPlace,
  stored: StoredChunk,
  effect: ChunkEffect,
  cause: ChangeCause,
): Changes[] {
  const before = new Map(stored.tracked.map((item) => [item.index, item]));
  // By their place: the order in which a store holds what it tracks must not show in a chain.
  const tried = effect.track
    .filter((item) => isNewTry(item, before.get(item.index)))
    .toSorted((one, other) => one.index - other.index);
  const describe = (item: TrackedItem): Json => describeTry(item, before.get(item.index), start);
  const list = (code: OutcomeCode): string | undefined =>
    listRanges(stored.items, (index) => isNewOutcome(stored, effect, index, code), start);
  const said = { cause: cause === "reported" ? undefined : cause };
  const tell = (from: number): Changes => {
    const some = tried.slice(from, from + TRIES_PER_LINK);
    return {
      failed: orNothing(some.filter(({ dead }) => dead).map(describe)),
      retried: orNothing(some.filter(({ dead }) => !dead).map(describe)),
      ...said,
    };
  };
  const first: Changes = { succeeded: list(SUCCEEDED), skipped: list(SKIPPED), ...tell(0) };
  if (Object.values(first).every((change) => change === undefined)) return [];
  const parts = [first];
  for (let from = TRIES_PER_LINK; from < tried.length; from += TRIES_PER_LINK) {
    parts.push(tell(from));
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

/** An attempt has ended badly since: by itself, or with the worker that ran it. */
function isNewTry(item: TrackedItem, before: TrackedItem | undefined): boolean {
  if (item.dead) return before?.dead !== true;
  const { attempts = 0, deaths = 0 } = before ?? {};
  return item.attempts > attempts || item.deaths > deaths;
}

function describeTry(item: TrackedItem, before: TrackedItem | undefined, start: number): Json {
  const { index, key, attempts, deaths, drive } = item;
  // Who dies with its worker has no error of its own: what it keeps is that of an earlier try.
  const hasDied = !item.dead && deaths > (before?.deaths ?? 0);
  const error = hasDied ? null : item.error;
  return {
    item: start + index,
    // Whatever a handler calls its errors must not keep its report from being written.
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

/** The items of a chunk of which something holds, as `0-999,1003`; undefined when there is none. */
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

/** The items of ranges as they are written above. */
export function* readRanges(text: string): Generator<readonly [first: number, last: number]> {
  for (const range of text.split(",")) {
    const [first = "", last = first] = range.split("-");
    yield [Number(first), Number(last)];
  }
}

/** How much of links and their blocks one page of a ledger may hold, in characters; one always is. */
export const LEDGER_PAGE_CHARS = 4_000_000;

/** What a link counts as in a page. */
export function measureLink(
  body: string,
  block: { readonly lines: string; readonly details: string | null } | null,
): number {
  return body.length + (block?.lines.length ?? 0) + (block?.details?.length ?? 0);
}
