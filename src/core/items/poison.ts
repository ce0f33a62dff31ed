/**
 * Finding the item that kills its worker, without blaming its neighbours.
 *
 * 1. A chunk runs in bulk. Its lease is lost: one of its items may be poison, but it is unknown
 *    which.
 * 2. It runs guarded: the starts of a few items at a time are written before they run. The lease is
 *    lost again: the items that were started are suspects.
 * 3. A suspect runs alone in its process. The lease is lost a third time: it is a dead letter.
 *
 * So exactly DEATHS_MAX deaths convict an item, the last one with no other item running beside it.
 */

export const DEATHS_MAX = 3;
/**
 * A chunk may also be lost before any start is written, when its worker dies while it reads. No
 * item can be blamed for that, and often another chunk in the same process caused it. So the bound
 * is high; but there is one.
 */
export const LOSSES_MAX = 1_000;
/** With this many deaths or more an item runs alone. */
const DEATHS_OF_SUSPECT = DEATHS_MAX - 1;

export interface StartedItem {
  readonly index: number;
  /** Deaths charged to the item before this loss. */
  readonly deaths: number;
}

export interface ChargedItem {
  readonly index: number;
  readonly deaths: number;
  /** The item gave up: it becomes a dead letter. */
  readonly convicted: boolean;
}

/** Charges a lost lease to the items whose start was written and whose end was not. */
export function decideAfterLoss(started: readonly StartedItem[]): ChargedItem[] {
  const alone = started.length === 1;
  return started.map(({ index, deaths }) => {
    // The loss in bulk is counted here, once: no item could be charged when it happened.
    const charged = Math.max(deaths, 1) + 1;
    return alone
      ? { index, deaths: Math.min(charged, DEATHS_MAX), convicted: charged >= DEATHS_MAX }
      : { index, deaths: Math.min(charged, DEATHS_OF_SUSPECT), convicted: false };
  });
}

/** A task in its own process has nothing beside it: each of its deaths happened alone. */
export function isPoisonAlone(deaths: number): boolean {
  return deaths >= DEATHS_MAX;
}

export function mustRunAlone(deaths: number): boolean {
  return deaths >= DEATHS_OF_SUSPECT;
}
