/** The limiter under a clock that advances while it is read, as real clocks do. */
import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { type BucketState, decideDraw, NEW_BUCKET } from "../../core/limits/bucket.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import type { Clock } from "../../ports/clock.ts";
import type { TokenDraw } from "../../ports/store/token-store.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { Limiter } from "./limiter.ts";

const ITEMS = 100;
const SUPPLY = {
  bucket: "rate/fetch",
  key: "",
  spec: { kind: "rate", perSecond: 50, burst: 10 },
  cost: 1,
} as const;

/** Every read advances it. */
class CreepingClock implements Clock {
  readonly manual = new ManualClock();
  readonly #stepMs: number;
  #creptMs = 0;

  constructor(stepMs: number) {
    this.#stepMs = stepMs;
  }

  wallMs(): number {
    return this.manual.wallMs();
  }

  monotonicMs(): number {
    this.#creptMs += this.#stepMs;
    return this.manual.monotonicMs() + this.#creptMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    return this.manual.after(delayMs, callback);
  }

  turn(): Promise<void> {
    return this.manual.turn();
  }
}

function makeRun(): ChunkRun {
  const lease = {
    batch: "b-1",
    step: 0,
    chunk: 0,
    fence: 1,
    start: 0,
    end: ITEMS,
    locator: null,
    outcomes: createOutcomeMap(ITEMS),
    histories: [],
    overrides: [],
    guarded: false,
    final: false,
  };
  return new ChunkRun(lease, { leaseUntil: Number.POSITIVE_INFINITY, now: 0 });
}

/** Starts whatever may start whenever it is notified, like a runner with free slots. */
function runOn(clock: Clock): { readonly limiter: Limiter; readonly started: number[] } {
  let state: BucketState = NEW_BUCKET;
  const started: number[] = [];
  const draw = async (draws: readonly TokenDraw[], slackMs: number) => {
    await Promise.resolve();
    return draws.map((one) => {
      const time = { monotonicMs: clock.monotonicMs(), wallMs: clock.wallMs() };
      const decided = decideDraw(state, one.spec, { ...one, slackMs }, time);
      state = decided.state;
      return decided.grant;
    });
  };
  const limiter = new Limiter({
    store: { draw },
    clock,
    random: { next: () => 0.5, id: () => "aaaaaaaaaaaa" },
    log: () => undefined,
    mayStart: () => true,
    countStartable: () => 8,
    onRights: () => {
      while (limiter.canTake(clock.monotonicMs())) {
        const right = limiter.take(clock.monotonicMs());
        if (right !== null) started.push(right.index);
      }
    },
    onLost: () => undefined,
    onRest: () => undefined,
    onClosed: () => undefined,
    onFatal: (error) => {
      throw error;
    },
  });
  return { limiter, started };
}

test.each([0, 0.05, 0.3, 0.7, 1.1])(
  "everything starts, though a token may become valid between two clock reads: %d ms a read",
  async (stepMs) => {
    const clock = new CreepingClock(stepMs);
    const { limiter, started } = runOn(clock);
    limiter.add(makeRun(), () => ({ tokenNeed: SUPPLY, pace: null }));
    await clock.manual.run(60_000);
    expect(started).toEqual(Array.from({ length: ITEMS }, (_, index) => index));
  },
);
