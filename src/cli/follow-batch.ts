/** Looks at a batch a few times a second and shows how far it is, until it is told to stop. */
import { isEnded } from "../core/batch.ts";
import {
  addSample,
  computeEstimate,
  countDone,
  type Estimate,
  type ProgressSample,
} from "../core/progress.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/conducting.ts";
import type { Store } from "../ports/store.ts";
import { DRAW_EVERY_MS, type ProgressDisplay } from "./progress-display.ts";

/** The rate's samples are further apart than the looks, so that they span half a minute. */
const SAMPLE_EVERY_MS = 500;
/** From fewer samples than this a rate is a guess. */
const SAMPLES_MIN = 3;

const NO_ESTIMATE: Estimate = { itemsPerSecond: 0, etaMs: null };

export interface FollowParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly display: ProgressDisplay;
}

/** The rate of one batch as seen from here. */
export class PaceWatch {
  #samples: ProgressSample[] = [];

  look(batch: BatchSnapshot, nowMs: number): Estimate {
    if (batch.state !== "running") return NO_ESTIMATE;
    const sample = { atMs: nowMs, done: countDone(batch.counts) };
    const last = this.#samples.at(-1);
    if (last === undefined || nowMs - last.atMs >= SAMPLE_EVERY_MS) {
      this.#samples = addSample(this.#samples, sample);
    }
    if (this.#samples.length < SAMPLES_MIN) return NO_ESTIMATE;
    return computeEstimate([...this.#samples, sample], batch.counts);
  }
}

/** Shows the batch until it ends or the signal aborts; answers as it was at the last look. */
export async function followBatch(
  id: string,
  { store, clock, display }: FollowParts,
  signal: AbortSignal,
  onLook: (batch: BatchSnapshot) => void = () => undefined,
): Promise<BatchSnapshot | null> {
  const pace = new PaceWatch();
  for (;;) {
    const batch = await store.getBatch(id);
    if (batch === null || isEnded(batch.state) || signal.aborted) return batch;
    onLook(batch);
    const { state, counts } = batch;
    display.show({ state, counts, estimate: pace.look(batch, clock.monotonicMs()) });
    await sleep(clock, DRAW_EVERY_MS, signal);
  }
}
