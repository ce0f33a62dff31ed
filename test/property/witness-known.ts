/** What the witness knows about a batch from acknowledgements alone. */
import type { Word } from "../support/outcome-words.ts";

export interface Known {
  lane: string;
  pipeline: string;
  /** By the item's name: see `nameItem`. */
  readonly words: Map<string, Word>;
  readonly results: Map<string, string>;
  /** The last known drive of an item. */
  readonly drives: Map<string, number>;
  /** How many items were redriven, in all drives. */
  redriven: number;
  /** Attempts that were reported, and those that ended with their worker. */
  readonly attempts: Map<string, number>;
  /** Chunks whose lease was lost at least once. */
  readonly lost: Set<string>;
  /**
   * How often an item was running when its worker was lost, and whether it ran alone the last time.
   */
  readonly losses: Map<string, { times: number; alone: boolean }>;
  readonly parts: Map<string, { step: number; items: number; slicing: number }>;
  slicings: number;
  reopenings: number;
  /** Its state when it ended; null while it has not ended, or has been reopened. */
  ended: object | null;
}

export function makeKnown(): Known {
  return {
    lane: "",
    pipeline: "",
    words: new Map(),
    results: new Map(),
    drives: new Map(),
    redriven: 0,
    attempts: new Map(),
    lost: new Set(),
    losses: new Map(),
    parts: new Map(),
    slicings: 0,
    reopenings: 0,
    ended: null,
  };
}

export const nameItem = (step: number, item: number): string => `${step}/${item}`;

/** A dead letter was redriven: its deaths count from 0 again. */
export function noteRedriven(known: Known, item: string): void {
  known.redriven += 1;
  known.words.delete(item);
  known.attempts.delete(item);
  known.losses.delete(item);
}
