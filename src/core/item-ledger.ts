/**
 * What the ledger says about items, in pipelines that ask for it. Every change of a chunk is one link
 * in its batch's chain, written by the store from what it changes itself: outcomes as ranges, failed
 * attempts one by one. What handlers recorded comes beside it as a block of lines, of which the link
 * holds the root of their tree: see docs/decisions/0030-ledger-blocks.md.
 */
import type { BatchRecord } from "./batch.ts";
import type { Json } from "./canonical-json.ts";
import { getOutcome, type OutcomeCode, PENDING, SKIPPED, SUCCEEDED } from "./outcome-map.ts";
import type { ChunkEffect, StoredChunk, TrackedItem } from "./tracked-item.ts";

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

/** A chunk as its lease knows it. */
export interface ChunkPlace {
  readonly step: number;
  readonly chunk: number;
  /** The number of its first item. */
  readonly start: number;
  readonly fence: number;
  readonly worker: number;
}

/** Why a chunk changes: its worker says so, its lease ran out, or nobody took it up. */
export type ChangeCause = "reported" | "lost" | "stalled";

/** The link for a change of a chunk; null when nothing of its items changed. */
export function describeChange(
  place: ChunkPlace,
  stored: StoredChunk,
  effect: ChunkEffect,
  cause: ChangeCause,
  block: LedgerBlock | null = null,
): BatchRecord | null {
  const { step, chunk, fence, worker, start } = place;
  const before = new Map(stored.tracked.map((item) => [item.index, item]));
  const tried = effect.track.filter((item) => isNewTry(item, before.get(item.index)));
  const describe = (item: TrackedItem): Json => describeTry(item, start);
  const changes: { readonly [name: string]: Json | undefined } = {
    succeeded: listRanges(stored, effect, SUCCEEDED, start),
    skipped: listRanges(stored, effect, SKIPPED, start),
    failed: orNothing(tried.filter(({ dead }) => dead).map(describe)),
    retried: orNothing(tried.filter(({ dead }) => !dead).map(describe)),
    cause: cause === "reported" ? undefined : cause,
    block: block === null ? undefined : describeBlock(block),
  };
  if (Object.values(changes).every((change) => change === undefined)) return null;
  return { type: "items.recorded", data: { step, chunk, fence, worker, ...changes } };
}

/** The link for a block that came with nothing else. */
export function describeLateBlock(place: ChunkPlace, block: LedgerBlock): BatchRecord {
  const { step, chunk, fence, worker } = place;
  return {
    type: "items.recorded",
    data: { step, chunk, fence, worker, block: describeBlock(block) },
  };
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

function describeTry(
  { index, key, attempts, deaths, drive, error }: TrackedItem,
  start: number,
): Json {
  return {
    item: start + index,
    key,
    attempts,
    ...(deaths > 0 && { deaths }),
    ...(drive > 1 && { drive }),
    code: error?.code ?? null,
    class: error?.errorClass ?? null,
  };
}

function orNothing(list: readonly Json[]): Json | undefined {
  return list.length === 0 ? undefined : list;
}

/** Items that have got an outcome with this change, as `0-999,1003`. */
function listRanges(
  stored: StoredChunk,
  effect: ChunkEffect,
  code: OutcomeCode,
  start: number,
): string | undefined {
  const ranges: string[] = [];
  let first = -1;
  for (let index = 0; index <= stored.items; index++) {
    const isNew =
      index < stored.items &&
      getOutcome(effect.outcomes, index) === code &&
      getOutcome(stored.outcomes, index) === PENDING;
    if (isNew && first === -1) first = index;
    if (isNew || first === -1) continue;
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
