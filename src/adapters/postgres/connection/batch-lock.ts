/** The lock under which all that belongs to a batch is written. */
import { statement } from "./statement.ts";
import type { Transaction } from "./transaction.ts";

const LOCK = statement("SELECT num FROM batch WHERE num = $1 FOR NO KEY UPDATE");

/** Waits for it; false when the batch is gone. What was read before may have changed meanwhile. */
export async function lockBatch(tx: Transaction, num: number): Promise<boolean> {
  return (await tx.get(LOCK, num)) !== undefined;
}
