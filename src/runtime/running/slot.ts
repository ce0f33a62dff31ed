/**
 * One place for a handler call; an item loop has one for each concurrent handler of its pipeline.
 */
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { HandlerCall } from "./item-context.ts";

export interface Slot {
  handlerCall: HandlerCall | null;
  run: ChunkRun | null;
  /** The position of the call's item; with `processChunk` the first of several. */
  index: number;
  /** The further positions of a `processChunk` call. */
  more: readonly number[];
  item: unknown;
  /** It must start before this time, by the limits of its step; null for none. */
  startUntil: number | null;
  startedAt: number;
  abandoned: boolean;
  readonly onAbandon: () => void;
}

export function makeSlot(startedAt: number, onAbandon: () => void): Slot {
  return {
    handlerCall: null,
    run: null,
    index: -1,
    more: [],
    item: undefined,
    startUntil: null,
    startedAt,
    abandoned: false,
    onAbandon,
  };
}
