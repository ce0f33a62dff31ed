/** Reads a batch a few times a second and shows its progress, until it is stopped. */
import { isEnded } from "../../core/batch/batch.ts";
import { type Counts, NO_ITEMS } from "../../core/batch/counts.ts";
import {
  addSample,
  computeEstimate,
  countDone,
  type Estimate,
  type ProgressSample,
} from "../../core/batch/progress.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { describeHold } from "../../views/hold.ts";
import { nameHold } from "../render/batch-words.ts";
import { DRAW_EVERY_MS, type ProgressDisplay } from "../render/progress-display.ts";
import { describeStepTurn } from "../../views/step.ts";

/** Samples for the rate are further apart than the reads, so that they span half a minute. */
const SAMPLE_EVERY_MS = 500;
const ASK_EVERY_MS = 1_000;
/** With fewer samples a rate is a guess. */
const SAMPLES_MIN = 3;

const NO_ESTIMATE: Estimate = { itemsPerSecond: 0, etaMs: null };

export interface FollowParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly display: ProgressDisplay;
  /** Without a bar, what the batch waits for gets its own line. Default true. */
  readonly printsHold?: boolean;
}

/** The rate of one batch as seen from here; each step and each drive has its own. */
class PaceWatch {
  #samples: ProgressSample[] = [];
  #stage = "";

  look(batch: BatchSnapshot, nowMs: number): Estimate {
    const stage = `${batch.state}/${batch.step}/${batch.drive}`;
    if (stage !== this.#stage) this.#samples = [];
    this.#stage = stage;
    if (batch.state !== "running") return NO_ESTIMATE;
    const counts = readStepCounts(batch);
    const sample = { atMs: nowMs, done: countDone(counts) };
    const last = this.#samples.at(-1);
    if (last === undefined || nowMs - last.atMs >= SAMPLE_EVERY_MS) {
      this.#samples = addSample(this.#samples, sample);
    }
    if (this.#samples.length < SAMPLES_MIN) return NO_ESTIMATE;
    return computeEstimate([...this.#samples, sample], counts);
  }
}

/** Counts of its current step; a batch that has just reached a step has no items of it yet. */
function readStepCounts({ steps, step }: BatchSnapshot): Counts {
  return steps[step]?.counts ?? NO_ITEMS;
}

/** What keeps a batch from running, read at most once a second. */
class HoldWatch {
  readonly #parts: FollowParts;
  #ahead: number | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: FollowParts) {
    this.#parts = parts;
  }

  async look(batch: BatchSnapshot): Promise<string | null> {
    if (describeHold(batch, null) === null) return null;
    const { store, clock } = this.#parts;
    const now = clock.monotonicMs();
    if (now - this.#askedAt >= ASK_EVERY_MS) {
      this.#askedAt = now;
      this.#ahead = (await store.readWaiting(batch.id, 0))?.batch.ahead ?? null;
    }
    return describeHold(batch, this.#ahead);
  }
}

/** Shows the batch until it ends or the signal aborts; returns it as it was at the last read. */
export async function followBatch(
  id: string,
  parts: FollowParts,
  signal: AbortSignal,
  onLook: (batch: BatchSnapshot) => void = () => undefined,
): Promise<BatchSnapshot | null> {
  const { store, clock, display, printsHold = true } = parts;
  const pace = new PaceWatch();
  const holds = new HoldWatch(parts);
  let lastHold: string | null = null;
  for (;;) {
    const batch = await store.getBatch(id);
    if (batch === null || isEnded(batch.state) || signal.aborted) return batch;
    onLook(batch);
    const hold = await holds.look(batch);
    if (printsHold && hold !== lastHold && hold !== null) {
      display.noteWithoutBar(`batch ${id} ${nameHold(hold)}`);
    }
    lastHold = hold;
    display.show({
      state: batch.state,
      counts: readStepCounts(batch),
      estimate: pace.look(batch, clock.monotonicMs()),
      step: describeStepTurn(batch),
      hold,
    });
    await sleep(clock, DRAW_EVERY_MS, signal);
  }
}
