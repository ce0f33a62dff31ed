/** What a `ChunkRun` is made with. */
import type { CpuPools } from "../cpu/cpu-pools.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import type { LedgerParts } from "./ledger-lines.ts";
import type { StepMeter } from "../observing/meter.ts";

export interface RunOptions {
  readonly leaseUntil: number;
  readonly now: number;
  /** Pools that run its handlers' CPU tasks. */
  readonly cpu?: CpuPools;
  /** Called when a handler begins to wait for its checkpoint. */
  readonly onUrgent?: () => void;
  /** Holds its lease, so that a thread renews it also while the event loop is busy. */
  readonly health?: WorkerHealth | undefined;
  /** Counts its outcomes and lost leases. */
  readonly meter?: StepMeter;
  /** Needed for lines of the ledger, if its batch keeps a ledger of items. */
  readonly ledger?: LedgerParts;
}
