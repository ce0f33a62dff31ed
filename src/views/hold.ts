/** What keeps a batch from running, in a few words: its lane's turn, a pause, a cancel. */
import { type Act, isEnded } from "../core/batch/batch.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";

/** From a snapshot alone; null when the batch can run. `ahead`: batches before it in its lane. */
export function describeHold(batch: BatchSnapshot, ahead: number | null): string | null {
  const { state, cancel, parked, pause, active, lane } = batch;
  if (isEnded(state)) return null;
  if (cancel !== null) return `being cancelled (${cancel.mode}) by ${describeWho(cancel)}`;
  if (parked !== null) return `parked: ${parked.message}`;
  if (pause !== null) {
    const what = pause.scope === "batch" ? "" : ` (its ${pause.scope} ${pause.name})`;
    return `paused${what} by ${describeWho(pause)}`;
  }
  if (active) return null;
  const before = ahead === null ? "" : `, ${ahead} before it`;
  return `waits for its turn in lane ${lane}${before}`;
}

/** "ada: maintenance" */
export function describeWho({ by, why }: Act): string {
  return why === null ? by : `${by}: ${why}`;
}
