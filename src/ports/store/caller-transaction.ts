/**
 * Submitting inside of a transaction of the caller's own: the batch and his data are there together or
 * not at all. Nobody else sees anything of it before he commits, so nothing is leased or run.
 */
import type { ConductorStore } from "./conductor-store.ts";

/** What it takes to submit a batch and to give it the items that were handed over. */
export type CallerTransactionStore = Pick<
  ConductorStore,
  "submit" | "startSlicing" | "plan" | "finishSlicing" | "fail"
>;

export interface TransactionalStore {
  /**
   * Runs acts in a transaction that is open on a connection of the caller's to the same database: all
   * of them are done or none, and the transaction itself stays open in either case. Refuses what is
   * no such connection with BAD_TRANSACTION. Missing in a store without SQL.
   */
  within?<T>(transaction: unknown, act: (store: CallerTransactionStore) => Promise<T>): Promise<T>;
}
