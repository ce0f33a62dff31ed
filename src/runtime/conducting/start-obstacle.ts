/** A last check before a batch is sliced: something may have happened since it was found. */
import { isEnded } from "../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";

type Facts = Pick<BatchSnapshot, "state" | "cancel" | "parked" | "active" | "pause">;

/**
 * Why the batch must not be sliced now; null when it may be. `owned` items exist only in this
 * process: they are planned before it is their batch's turn.
 */
export function findStartObstacle(batch: Facts | null, owned: boolean): string | null {
  if (batch === null) return "it no longer exists";
  if (isEnded(batch.state)) return "it has ended";
  if (batch.cancel !== null) return "it is being cancelled";
  // Its lane has moved on, and its half-made plan was deleted.
  if (batch.parked?.code === "STALE") return "it is parked as stale";
  if (owned) return null;
  if (batch.pause !== null) return "it is paused";
  return batch.active ? null : "it waits for its turn";
}
