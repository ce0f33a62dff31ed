/** The lock for all writes to a batch. */
import { statement } from "./statement.ts";
import type { Transaction } from "./transaction.ts";

const LOCK = statement("SELECT num FROM batch WHERE num = $1 FOR NO KEY UPDATE");

/**
 * Waits for it; false when the batch is gone. Data that was read before may have changed meanwhile.
 */
export async function lockBatch(tx: Transaction, num: number): Promise<boolean> {
  return (await tx.get(LOCK, num)) !== undefined;
}
