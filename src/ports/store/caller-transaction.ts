/**
 * Submitting inside of the caller's own transaction: the batch and the caller's data are committed
 * together or not at all. No other connection sees the batch before the commit, so nothing is
 * leased or run.
 */
import type { ConductorStore } from "./conductor-store.ts";

/** The calls that submit a batch and plan its submitted items. */
export type CallerTransactionStore = Pick<
  ConductorStore,
  "submit" | "startSlicing" | "plan" | "finishSlicing" | "fail"
>;

export interface TransactionalStore {
  /**
   * Runs acts in a transaction that is open on the caller's own connection to the same database:
   * all of them are done or none, and the transaction stays open in either case. Refuses other
   * connections with BAD_OPTION. Absent in a store without SQL.
   */
  within?<T>(transaction: unknown, act: (store: CallerTransactionStore) => Promise<T>): Promise<T>;
}
