/** What the rules ask of concurrency permits, which each store keeps in its own way. */
import type { CapFacts } from "../../core/batch/why.ts";
import type { Act } from "./dialect/act.ts";
import type { RuleTransaction } from "./dialect/transaction.ts";

export interface PermitUpkeep {
  /** The narrowest cap of a batch that is reached. */
  findFull(tx: RuleTransaction, num: number): Act<CapFacts | null>;
  hasExpired(tx: RuleTransaction): Act<boolean>;
  /** The permits of a worker that is gone expire. */
  forgetHolder(tx: RuleTransaction, worker: number): Act<void>;
  /** Removes those that expired. */
  sweep(tx: RuleTransaction): Act<void>;
}
