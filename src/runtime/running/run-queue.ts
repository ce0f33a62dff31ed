/**
 * Held chunks whose items may start, in order. A chunk that must run guarded blocks those behind
 * it; one whose batch, lane or pipeline is at its cap lets them pass.
 */
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { Slot } from "./slot.ts";
import type { SlotPermits } from "../limits/slot-permits.ts";

export interface QueueEvents {
  /** Nothing of the run is left to start. */
  onUsedUp(run: ChunkRun): void;
  /** The rest may not start any more, by the limits of its step. */
  onExpired(run: ChunkRun): void;
}

export class RunQueue {
  readonly #permits: SlotPermits;
  readonly #takesAll: boolean;
  readonly #events: QueueEvents;
  readonly #runs: ChunkRun[] = [];
  /** Items that may still be started. */
  unstarted = 0;

  /** With `takesAll` a slot gets all unstarted items of a run. */
  constructor(permits: SlotPermits, takesAll: boolean, events: QueueEvents) {
    this.#permits = permits;
    this.#takesAll = takesAll;
    this.#events = events;
  }

  get head(): ChunkRun | undefined {
    return this.#runs[0];
  }

  add(run: ChunkRun): void {
    this.#runs.push(run);
    this.unstarted += run.unstarted;
  }

  /** Starts no more items of the run from here. */
  drop(run: ChunkRun): void {
    if (run.arrived) this.unstarted -= run.unstarted;
    run.skipRest();
    this.leave(run);
  }

  /** It has nothing left to start. */
  leave(run: ChunkRun): void {
    const at = this.#runs.indexOf(run);
    if (at !== -1) this.#runs.splice(at, 1);
  }

  takeHead(): ChunkRun | undefined {
    const head = this.#runs.shift();
    this.unstarted -= head?.unstarted ?? 0;
    return head;
  }

  clear(): ChunkRun[] {
    this.unstarted = 0;
    return this.#runs.splice(0);
  }

  canTake(now: number): boolean {
    if (this.unstarted === 0) return false;
    return this.#findNext(now, 0) !== -1;
  }

  /** Gives a slot the next item to start and returns its position; -1 for none. */
  take(slot: Slot, now: number): number {
    for (let at = this.#findNext(now, 0); at !== -1; at = this.#findNext(now, at)) {
      const run = this.#runs[at] as ChunkRun;
      if (now >= run.startUntil) {
        this.#expire(run);
        continue;
      }
      const index = this.#takeOf(run, now);
      if (index !== -1) {
        slot.run = run;
        slot.startUntil = run.startUntil;
        if (this.#takesAll) slot.more = this.#takeRest(run);
        return index;
      }
      this.#runs.splice(at, 1);
      this.#events.onUsedUp(run);
    }
    return -1;
  }

  /** The right to start its items has expired. */
  #expire(run: ChunkRun): void {
    this.unstarted -= run.unstarted;
    this.leave(run);
    this.#events.onExpired(run);
    if (run.waiting === 0) this.#events.onUsedUp(run);
  }

  #takeRest(run: ChunkRun): number[] {
    this.unstarted -= run.unstarted;
    return run.takeRest();
  }

  /** The next item of a run; -1 for none. A worker checks its own lease before each start. */
  #takeOf(run: ChunkRun, now: number): number {
    const before = run.unstarted;
    if (run.isLostAt(now)) run.skipRest();
    const index = run.takeNext();
    this.unstarted -= before - run.unstarted;
    return index;
  }

  #findNext(now: number, from: number): number {
    const areCapped = this.#permits.areNeeded;
    for (let at = from; at < this.#runs.length; at++) {
      const run = this.#runs[at] as ChunkRun;
      if (run.lease.guarded) return -1;
      if (!areCapped || this.#permits.mayStart(run, now)) return at;
    }
    return -1;
  }
}
