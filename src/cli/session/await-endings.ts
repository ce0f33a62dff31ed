/**
 * Waits until batches have ended, and sweeps lost leases meanwhile: chunks of a dead worker would
 * otherwise stay leased until another worker starts.
 */
import { isEnded } from "../../core/batch/batch.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { makeSweepPolicy } from "../../runtime/conducting/sweeper.ts";
import { type EngineSettings, resolveSettings } from "../../runtime/system/settings.ts";
import { ChangeSignal } from "../../runtime/system/change-signal.ts";

/** Polling interval when notifications are lost. */
const LOOK_EVERY_MS = 500;
/** Shortest time between two reads, however busy the store is. */
const LOOK_AT_MOST_EVERY_MS = 50;

export interface AwaitParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: Partial<EngineSettings>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** The batches as they are when all have ended, the time is over or the signal aborts. */
export async function awaitEndings(
  ids: readonly string[],
  { store, clock, settings, timeoutMs, signal }: AwaitParts,
): Promise<readonly BatchSnapshot[]> {
  const policy = makeSweepPolicy(resolveSettings(settings));
  const until = clock.monotonicMs() + timeoutMs;
  const changed = new ChangeSignal(clock);
  const unwatch = store.watch(() => changed.notify());
  const onAbort = (): void => changed.notify();
  signal.addEventListener("abort", onAbort);
  try {
    for (;;) {
      changed.reset();
      await store.sweep(policy);
      const batches = await readBatches(store, ids);
      const leftMs = until - clock.monotonicMs();
      const isOver = batches.every(({ state }) => isEnded(state)) || leftMs <= 0;
      if (isOver || signal.aborted) return batches;
      await sleep(clock, Math.min(LOOK_AT_MOST_EVERY_MS, leftMs), signal);
      await changed.wait(Math.min(LOOK_EVERY_MS, leftMs));
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    unwatch();
  }
}

/** The batches that still exist. */
export async function readBatches(
  store: Store,
  ids: readonly string[],
): Promise<readonly BatchSnapshot[]> {
  const batches: BatchSnapshot[] = [];
  for (const id of ids) {
    const batch = await store.getBatch(id);
    if (batch !== null) batches.push(batch);
  }
  return batches;
}
