/**
 * Room below a cap for the next wave of a guarded run. It is reserved until the wave starts: starts
 * are written first, which takes a while, and without a reservation other runs would always be
 * faster. Without room it waits: a chunk that is given back at once would be leased again at once.
 */
import type { Clock } from "../../ports/clock.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { SlotPermits } from "./slot-permits.ts";
import { ChangeSignal } from "../system/change-signal.ts";

const ROOM_WAIT_MS = 1_000;

export class PermitWait {
  readonly #permits: SlotPermits;
  readonly #clock: Clock;
  readonly #changed: ChangeSignal;

  constructor(permits: SlotPermits, clock: Clock) {
    this.#permits = permits;
    this.#clock = clock;
    this.#changed = new ChangeSignal(clock);
  }

  /** There may be room now, or it is no longer needed. */
  notify(): void {
    this.#changed.notify();
  }

  /** How many of the wanted items may start; 0 when there is no room for a while. */
  async reserve(run: ChunkRun, wanted: number, isOver: () => boolean): Promise<number> {
    const until = this.#clock.monotonicMs() + ROOM_WAIT_MS;
    for (;;) {
      const now = this.#clock.monotonicMs();
      const room = this.#permits.reserve(run, wanted, now);
      if (room > 0 || now >= until || isOver()) return room;
      await this.#changed.wait(until - now);
    }
  }
}
