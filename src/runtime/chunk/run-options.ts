/** What a leased chunk in a worker's hands is made with. */
import type { CpuPools } from "../cpu/cpu-pools.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import type { LedgerParts } from "./ledger-lines.ts";
import type { StepMeter } from "../observing/meter.ts";

export interface RunOptions {
  readonly leaseUntil: number;
  readonly now: number;
  /** Where its handlers have something computed. */
  readonly cpu?: CpuPools;
  /** A handler waits for the store to be told. */
  readonly onUrgent?: () => void;
  /** Where its lease is entered, so that it is renewed also while the loop is busy. */
  readonly health?: WorkerHealth | undefined;
  /** Who counts what becomes of it. */
  readonly meter?: StepMeter;
  /** What its handlers record needs, where its batch keeps a ledger of items. */
  readonly ledger?: LedgerParts;
}
