/**
 * The outcomes of a chunk's items, two bits each: a million successful items cost 250 KB in all.
 * Item i is in byte i >> 2 at bit (i & 3) * 2. `cancelled` needs no code: an item that is pending
 * when its batch has ended is cancelled.
 */
import type { OutcomeDelta } from "../batch/counts.ts";
import { invariant } from "../base/invariant.ts";

export const PENDING = 0;
export const SUCCEEDED = 1;
export const SKIPPED = 2;
export const FAILED = 3;
export type OutcomeCode = typeof PENDING | typeof SUCCEEDED | typeof SKIPPED | typeof FAILED;

export type OutcomeMap = Uint8Array;

export function createOutcomeMap(items: number): OutcomeMap {
  return new Uint8Array(countMapBytes(items));
}

export function countMapBytes(items: number): number {
  return (items + 3) >> 2;
}

export function getOutcome(map: OutcomeMap, item: number): OutcomeCode {
  return (((map[item >> 2] as number) >> ((item & 3) << 1)) & 3) as OutcomeCode;
}

/**
 * Writes an item's outcome. An item gets exactly one: replacing it with a different one is a bug.
 */
export function setOutcome(map: OutcomeMap, item: number, code: OutcomeCode): void {
  const shift = (item & 3) << 1;
  const byte = map[item >> 2] as number;
  const before = (byte >> shift) & 3;
  invariant(before === PENDING || before === code, `item ${item} already has outcome ${before}`);
  map[item >> 2] = byte | (code << shift);
}

/** Clears an outcome, for a new drive of the item. */
export function clearOutcome(map: OutcomeMap, item: number): void {
  map[item >> 2] = (map[item >> 2] as number) & ~(3 << ((item & 3) << 1));
}

/** How many of the four items in each possible byte have each code. */
const TALLY = buildTally();

function buildTally(): Uint8Array[] {
  const tables = [0, 1, 2, 3].map(() => new Uint8Array(256));
  for (let byte = 0; byte < 256; byte++) {
    for (let shift = 0; shift < 8; shift += 2) {
      const table = tables[(byte >> shift) & 3] as Uint8Array;
      table[byte] = (table[byte] as number) + 1;
    }
  }
  return tables;
}

/**
 * Counts the finished items of a map. The padding of its last byte is pending, so it does not
 * count.
 */
export function countOutcomes(map: OutcomeMap): OutcomeDelta {
  const [, ofSucceeded, ofSkipped, ofFailed] = TALLY as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ];
  let succeeded = 0;
  let skipped = 0;
  let failed = 0;
  for (let i = 0; i < map.length; i++) {
    const byte = map[i] as number;
    succeeded += ofSucceeded[byte] as number;
    skipped += ofSkipped[byte] as number;
    failed += ofFailed[byte] as number;
  }
  return { succeeded, skipped, failed };
}

export interface MergedOutcomes {
  readonly map: OutcomeMap;
  /** What the merge adds to the stored map. */
  readonly delta: OutcomeDelta;
  readonly pending: number;
}

/**
 * Merges a worker's map into the stored one. The first outcome of an item stands for ever, so a
 * repeated report (its reply was lost) adds nothing.
 */
export function mergeOutcomes(
  stored: OutcomeMap,
  reported: OutcomeMap,
  items: number,
): MergedOutcomes {
  invariant(stored.length === reported.length, "outcome maps differ in length");
  const map = new Uint8Array(stored.length);
  for (let i = 0; i < map.length; i++) {
    map[i] = mergeByte(stored[i] as number, reported[i] as number);
  }
  const before = countOutcomes(stored);
  const after = countOutcomes(map);
  return {
    map,
    delta: {
      succeeded: after.succeeded - before.succeeded,
      skipped: after.skipped - before.skipped,
      failed: after.failed - before.failed,
    },
    pending: items - after.succeeded - after.skipped - after.failed,
  };
}

/** How many of its items have no outcome yet. */
export function countPending(map: OutcomeMap, items: number): number {
  const { succeeded, skipped, failed } = countOutcomes(map);
  return items - succeeded - skipped - failed;
}

function mergeByte(stored: number, reported: number): number {
  if (stored === 0 || stored === reported) return reported;
  // 0b01 for each item that is already decided, then widened to both of its bits.
  const decided = (stored | (stored >> 1)) & 0b01010101;
  const mask = decided | (decided << 1);
  return (stored & mask) | (reported & ~mask & 0xff);
}
