/** What happens to a chunk that no worker finishes: its lease is lost, or no worker leases it. */
import { FAILED, getOutcome, mergeOutcomes, PENDING, setOutcome } from "./outcome-map.ts";
import { DEATHS_MAX, decideAfterLoss, LOSSES_MAX } from "./poison.ts";
import {
  type ChunkEffect,
  earliestDue,
  type ItemError,
  newItem,
  type StoredChunk,
  tallyDead,
  type TrackedItem,
} from "./tracked-item.ts";

/** What a lost lease does to its chunk: see poison.ts. */
export function decideLoss(stored: StoredChunk, nowMs: number): ChunkEffect {
  const started = stored.tracked.filter((item) => item.started);
  const losses = started.length === 0 ? stored.losses + 1 : 0;
  if (losses >= LOSSES_MAX) return failPending(stored, LOST);
  const byIndex = new Map(started.map((item) => [item.index, item]));
  const outcomes = new Uint8Array(stored.outcomes);
  const track = decideAfterLoss(started).map(({ index, deaths, convicted }): TrackedItem => {
    const item = byIndex.get(index) as TrackedItem;
    const attempts = item.attempts + 1;
    const charged = { ...item, deaths, attempts, started: false };
    if (!convicted) return charged;
    setOutcome(outcomes, index, FAILED);
    // The first loss, in bulk, charged no item; now the item is known.
    return {
      ...charged,
      attempts: Math.max(attempts, deaths),
      dead: true,
      dueAt: 0,
      error: POISON,
    };
  });
  const merged = mergeOutcomes(stored.outcomes, outcomes, stored.items);
  const tracked = [...stored.tracked.filter((item) => !item.started), ...track];
  return {
    outcomes: merged.map,
    delta: merged.delta,
    end: merged.pending === 0 ? "settled" : "yielded",
    // A chunk whose items are all in back-off stays so: a lease would find nothing to run.
    dueAt: Math.max(nowMs, earliestDue(tracked, merged.pending, nowMs)),
    limitWait: null,
    track,
    untrack: [],
    results: [],
    messages: [],
    tally: tallyDead(track.filter(({ dead }) => dead)),
    losses,
  };
}

/** Gives up on every pending item of a chunk: each becomes a dead letter. */
export function failPending(stored: StoredChunk, error: ItemError): ChunkEffect {
  const known = new Map(stored.tracked.map((item) => [item.index, item]));
  const outcomes = new Uint8Array(stored.outcomes);
  const track: TrackedItem[] = [];
  for (let index = 0; index < stored.items; index++) {
    if (getOutcome(outcomes, index) !== PENDING) continue;
    setOutcome(outcomes, index, FAILED);
    const item = known.get(index) ?? newItem(index);
    track.push({ ...item, started: false, dead: true, dueAt: 0, error });
  }
  const merged = mergeOutcomes(stored.outcomes, outcomes, stored.items);
  return {
    outcomes: merged.map,
    delta: merged.delta,
    end: "settled",
    dueAt: 0,
    limitWait: null,
    track,
    untrack: [],
    results: [],
    messages: [],
    tally: tallyDead(track),
    losses: 0,
  };
}

const POISON: ItemError = {
  errorClass: "permanent",
  code: "POISON",
  message: `its worker died or hung ${DEATHS_MAX} times while running it, the last time while it ran alone`,
};

const LOST: ItemError = {
  errorClass: "unexpected",
  code: "LOST",
  message: `its chunk was lost ${LOSSES_MAX} times in a row before anything of it could start`,
};

/** The watch gave up on items that no worker leased. */
export const STALLED: ItemError = {
  errorClass: "transient",
  code: "STALLED",
  message: "it was due, but no worker leased it",
};
