/**
 * A step that waits for work which only an outside count can see: a search index that fills, rows
 * that drain elsewhere. It is a step with one item, whose handler reads the count and runs again
 * later. The last look is stored as the item's checkpoint, so a crashed look continues from there,
 * two looks cannot both end it, and cancel, pause and redrive work as for any item.
 */
import { PermanentError } from "../../core/base/errors.ts";
import {
  computeWatchDelayMs,
  DEFAULT_WATCH_DELAYS,
  decideWatch,
  FIRST_LOOK,
  nextWatchState,
  type WatchDelays,
  type WatchState,
} from "../../core/batch/watch.ts";
import type { ItemContext } from "./contexts.ts";
import { later, type ItemOutcome, succeeded } from "./outcomes.ts";

/** What is counted, and what it is to come to. */
export interface WaitFor {
  /** The count now. */
  readonly count: (context: ItemContext) => number | PromiseLike<number>;
  /**
   * 0 (the default): wait until the count has fallen to zero. Above 0: until it has risen to the
   * target.
   */
  readonly target?: number | ((context: ItemContext) => number | PromiseLike<number>);
  /** Looks without progress that are tolerated. Default 3. */
  readonly stalls?: number;
  /** When to look again; default one to five minutes, depending on the rest. */
  readonly delays?: Partial<WatchDelays>;
}

const STALLS_MAX = 3;
const CHECKPOINT = "look";

export function makeWaitStep({ count, target = 0, stalls = STALLS_MAX, delays = {} }: WaitFor): {
  readonly source: () => unknown[];
  readonly chunkSize: number;
  readonly process: (item: unknown, context: ItemContext) => Promise<ItemOutcome>;
} {
  const table: WatchDelays = { ...DEFAULT_WATCH_DELAYS, ...delays };
  return {
    source: () => [null],
    chunkSize: 1,
    async process(_item, context) {
      const state = (context.lastCheckpoint?.data ?? FIRST_LOOK) as WatchState;
      const current = checkCount(await count(context), "count");
      const goal = checkCount(
        typeof target === "number" ? target : await target(context),
        "target",
      );
      const look = { ...state, current, target: goal, stallsMax: stalls };
      const decision = decideWatch(look);
      if (decision === "all_processed") return succeeded({ count: current });
      if (decision === "retries_exhausted") {
        // The next drive of this item is a new watch.
        await context.checkpoint(CHECKPOINT, FIRST_LOOK);
        throw new PermanentError(
          `the count stayed at ${current} (target ${goal}) for ${stalls + 1} looks in a row`,
          { code: "STALLED" },
        );
      }
      await context.checkpoint(CHECKPOINT, nextWatchState(look, decision));
      return later(computeWatchDelayMs(Math.abs(goal - current), decision, table));
    },
  };
}

function checkCount(value: unknown, what: string): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new PermanentError(`waitFor.${what} returned ${String(value)}, which is not a number`, {
    code: "BAD_FUNCTION_RESULT",
  });
}
