/** A last look at a batch before it is sliced: what happened since it was found. */
import { isEnded } from "../../core/batch/batch.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";

type Facts = Pick<BatchSnapshot, "state" | "cancel" | "parked" | "active" | "pause">;

/**
 * Why the batch must not be sliced now; null when it may be. `owned` items live only in this process:
 * they are taken in before their batch has its turn.
 */
export function findStartObstacle(batch: Facts | null, owned: boolean): string | null {
  if (batch === null) return "it is gone";
  if (isEnded(batch.state)) return "it has ended";
  if (batch.cancel !== null) return "it is being cancelled";
  // Its lane has gone on, and its half-made plan is gone.
  if (batch.parked?.code === "STALE") return "it is parked as stale";
  if (owned) return null;
  if (batch.pause !== null) return "it is paused";
  return batch.active ? null : "it waits for its turn";
}
