/** How many tokens to draw for which buckets: for items that wait without one and could start. */
import type { TokenDraw } from "../../ports/store/token-store.ts";
import type { LimitGroup, Queue } from "./waiting-items.ts";

export interface Demand {
  readonly limitGroup: LimitGroup;
  readonly queue: Queue;
  readonly draw: TokenDraw;
}

/**
 * With this many tokens, and half of the demand, it does not ask for more yet: each draw is a
 * commit.
 */
const HELD_TOKENS_ENOUGH = 256;
/** With this many starts since the last answer, it draws more tokens than items wait. */
const QUICK_MIN = 1_000;
/** Draws in one store call. */
const DRAWS_MAX = 500;

/**
 * `startable` is how many items could start anyway: unused tokens are lost. `ended` is how many
 * calls have ended since the last answer.
 */
export function listDemands(
  groups: readonly LimitGroup[],
  { startable: most, ended }: { readonly startable: number; readonly ended: number },
  now: number,
): Demand[] {
  let startable = most;
  const demands: Demand[] = [];
  const want = (limitGroup: LimitGroup, queue: Queue, waiting: number): void => {
    const held = queue.balance.count(now);
    const mayAsk = queue.balance.askAt <= now && demands.length < DRAWS_MAX;
    const usable = Math.min(waiting, startable, mayAsk ? startable : held);
    if (limitGroup.pace !== queue) startable -= usable;
    const count = usable - held;
    const isEnough = held >= HELD_TOKENS_ENOUGH && held * 2 >= usable;
    if (count > 0 && !isEnough)
      demands.push({ limitGroup, queue, draw: { ...queue.tokenNeed, count } });
  };
  for (const limitGroup of groups) {
    const { pace } = limitGroup;
    if (pace !== null) want(limitGroup, pace, limitGroup.waiting);
    // Items that the pace holds back need no tokens of their keys.
    if (pace !== null && pace.balance.count(now) === 0) continue;
    for (const queue of limitGroup.queues.values()) {
      // With thousands of starts of one key there will be more of them.
      const isOnly = pace === null && groups.length === 1 && limitGroup.queues.size === 1;
      const isQuick = ended >= QUICK_MIN && queue.balance.waitReason === null;
      const waiting = isOnly && isQuick ? startable : queue.waiting;
      if (waiting > 0) want(limitGroup, queue, waiting);
    }
  }
  return demands;
}
