/** Removes tenants without work from the fair shares of their pipeline. */
import type { Act } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/**
 * The tenant, or the whole pipeline ($1), has no work left. What is asked of the pipeline does not
 * depend on the tenant, so it is read once.
 */
const IS_DONE = `(NOT EXISTS (SELECT 1 FROM batch b /*sqlite INDEXED BY batch_unfinished*/
    WHERE b.pipeline = $1 AND b.ended_at IS NULL)
  OR h.finish <= (SELECT c.virtual FROM share_clock c WHERE c.pipeline = $1)
    AND NOT EXISTS (SELECT 1 FROM batch b /*sqlite INDEXED BY batch_unfinished_of_tenant*/
      WHERE b.pipeline = h.pipeline AND b.tenant = h.tenant AND b.ended_at IS NULL))`;
const LOCK_DONE = statement(
  `SELECT h.tenant FROM share h WHERE h.pipeline = $1 AND ${IS_DONE}
   /*postgres FOR UPDATE SKIP LOCKED*/`,
);
// Checked again, as on a server a batch may have been submitted before the lock was taken.
const DROP_DONE = statement(
  `DELETE FROM share AS h WHERE h.pipeline = $1
     AND h.tenant /*sqlite = $2*//*postgres = ANY($2::text[])*/ AND ${IS_DONE}`,
);

/**
 * A tenant goes once its tag is not ahead of the present. Not earlier: a tenant that submits one
 * batch after the other would start again with each, and gain by it.
 */
export function* dropIdleTenants(tx: RuleTransaction, pipeline: string): Act<void> {
  const done = yield* tx.all<{ readonly tenant: string }>(LOCK_DONE, pipeline);
  tx.sendEach(
    DROP_DONE,
    [pipeline],
    done.map(({ tenant }) => tenant),
  );
}
