/**
 * What a record of the chain says about a chunk's items, read as if it were forged: which items
 * succeeded, were skipped or failed, which attempts failed, which were redriven, and the block that
 * handlers recorded before that.
 */
import { ITEMS_RECORDED } from "../../core/batch/batch.ts";
import type { ChainLine } from "./chain-line.ts";
import { HASH_DIGITS } from "./merkle-tree.ts";
import { hasMembers, isCount, isHex, isJsonObject, type JsonObject } from "./strict-json.ts";

/** Items of a step from the first to the last, inclusive. */
export type Range = readonly [first: number, last: number];

/** A failed attempt. */
export interface BadTry {
  readonly item: number;
  readonly key: string | null;
  readonly attempts: number;
  readonly deaths?: number;
  readonly drive?: number;
  readonly code: string | null;
  readonly class: string | null;
}

/** The block of a record. */
export interface BlockHeader {
  /** Its number within its lease, from 1. */
  readonly number: number;
  readonly count: number;
  readonly root: string;
}

export interface ItemsChange {
  readonly step: number;
  readonly chunk: number;
  readonly fence: number;
  /** Null when the engine itself changed the chunk. */
  readonly worker: number | null;
  readonly succeeded: readonly Range[];
  readonly skipped: readonly Range[];
  readonly failed: readonly BadTry[];
  readonly retried: readonly BadTry[];
  /** Failed items that are redriven, in this drive. */
  readonly redriven: readonly Range[];
  readonly drive: number | null;
  /** Why the engine itself changed the chunk; null when its worker reported. */
  readonly cause: "lost" | "stalled" | null;
  readonly block: BlockHeader | null;
}

const MEMBERS = [
  "step",
  "chunk",
  "fence",
  "worker?",
  "succeeded?",
  "skipped?",
  "failed?",
  "retried?",
  "redriven?",
  "drive?",
  "cause?",
  "block?",
];
const TRY_MEMBERS = ["item", "key", "attempts", "deaths?", "drive?", "code", "class"];
/** More than any chunk has: a forged range must not keep its reader busy. */
const CHUNK_ITEMS_MAX = 1_000_000;
/** More than any block has: what is kept of each line must not fill the memory. */
const BLOCK_LINES_MAX = 10_000;
const RANGE = /^(0|[1-9]\d{0,15})(?:-([1-9]\d{0,15}))?$/;

/** Undefined for a record of another type; null for an impossible one. */
export function readItemsChange({ type, data }: ChainLine): ItemsChange | null | undefined {
  if (type !== ITEMS_RECORDED) return undefined;
  const { worker, cause, drive, block } = data;
  const succeeded = readRanges(data["succeeded"]);
  const skipped = readRanges(data["skipped"]);
  const redriven = readRanges(data["redriven"]);
  const failed = readTries(data["failed"]);
  const retried = readTries(data["retried"]);
  if (succeeded === null || skipped === null || redriven === null) return null;
  if (failed === null || retried === null) return null;
  if (!isOneChunk([...succeeded, ...skipped, ...redriven], [...failed, ...retried])) return null;
  const hasOutcomes = [succeeded, skipped, failed, retried].some(({ length }) => length > 0);
  const isShaped =
    hasMembers(data, MEMBERS) &&
    ["step", "chunk", "fence"].every((member) => isCount(data[member])) &&
    (worker === undefined || isCount(worker)) &&
    (cause === undefined || cause === "lost" || cause === "stalled") &&
    (block === undefined ||
      (isBlockHeader(block) && worker !== undefined && cause === undefined)) &&
    (drive === undefined ? redriven.length === 0 : isCount(drive) && redriven.length > 0) &&
    // A redrive stands alone, and an empty change is impossible.
    (drive === undefined) === (hasOutcomes || cause !== undefined || block !== undefined);
  if (!isShaped) return null;
  const none = { worker: null, cause: null, drive: null, block: null };
  const read = { succeeded, skipped, failed, retried, redriven };
  return { ...none, ...data, ...read } as unknown as ItemsChange;
}

/** Items of one chunk are neighbours. */
function isOneChunk(ranges: readonly Range[], tries: readonly BadTry[]): boolean {
  let [lowest, highest] = [Number.POSITIVE_INFINITY, 0];
  for (const [first, last] of [...ranges, ...tries.map(({ item }): Range => [item, item])]) {
    lowest = Math.min(lowest, first);
    highest = Math.max(highest, last);
  }
  return highest - lowest < CHUNK_ITEMS_MAX;
}

function isBlockHeader(value: unknown): boolean {
  return (
    isJsonObject(value) &&
    hasMembers(value, ["number", "count", "root"]) &&
    isPositive(value["number"]) &&
    isPositive(value["count"]) &&
    (value["count"] as number) <= BLOCK_LINES_MAX &&
    isHex(value["root"], HASH_DIGITS)
  );
}

/** `0-999,1003`: rising, with a gap between any two; null for any other form. */
function readRanges(text: unknown): Range[] | null {
  if (text === undefined) return [];
  if (typeof text !== "string") return null;
  const ranges: Range[] = [];
  let items = 0;
  let before = -2;
  for (const part of text.split(",")) {
    const [, from, to] = RANGE.exec(part) ?? [];
    const first = Number(from);
    const last = to === undefined ? first : Number(to);
    const isNext = isCount(first) && isCount(last) && first > before + 1;
    if (!isNext || (to !== undefined && last <= first)) return null;
    items += last - first + 1;
    if (items > CHUNK_ITEMS_MAX) return null;
    ranges.push([first, last]);
    before = last;
  }
  return ranges;
}

function readTries(value: unknown): BadTry[] | null {
  if (value === undefined) return [];
  const isList = Array.isArray(value) && value.length > 0 && value.every(isTry);
  return isList ? (value as BadTry[]) : null;
}

function isTry(value: unknown): boolean {
  return isJsonObject(value) && hasMembers(value, TRY_MEMBERS) && hasTryMembers(value);
}

function hasTryMembers({
  item,
  key,
  attempts,
  deaths,
  drive,
  code,
  class: kind,
}: JsonObject): boolean {
  return (
    isCount(item) &&
    isCount(attempts) &&
    (deaths === undefined || isPositive(deaths)) &&
    (drive === undefined || (isCount(drive) && drive > 1)) &&
    [key, code, kind].every((text) => text === null || typeof text === "string")
  );
}

function isPositive(value: unknown): boolean {
  return isCount(value) && value > 0;
}
