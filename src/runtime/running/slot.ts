/** One place for a handler call; a runner has as many as its pipeline has handlers at once. */
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { HandlerCall } from "./item-context.ts";

export interface Slot {
  handlerCall: HandlerCall | null;
  run: ChunkRun | null;
  /** The position that the call answers for; with `processChunk` the first of several. */
  index: number;
  /** The further positions that a `processChunk` call answers for. */
  more: readonly number[];
  item: unknown;
  /** It must start before, by the limits of its step; null where there are none. */
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
