/** How full caps are, and permits that nothing uses any more. Takes no lock on a scope. */
import type { CapFacts } from "../../../core/batch/why.ts";
import { type CapScope, nameCapScope } from "../../../core/limits/caps.ts";
import type { Permit } from "../../../ports/store/worker-store.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { type CappedRow, listScopes } from "../permit-book.ts";

const SELECT_BATCH = statement("SELECT id, lane, pipeline, caps FROM batch WHERE num = $1");
const SELECT_OPERATORS = statement(
  `SELECT s.scope, s.name, s.value FROM batch b JOIN limit_setting s ON s.kind = 'cap' AND (
     (s.scope = 'batch' AND s.name = b.id) OR (s.scope = 'lane' AND s.name = b.lane)
     OR (s.scope = 'pipeline' AND s.name = b.pipeline)) WHERE b.num = $1`,
);
const COUNT = statement(
  `SELECT CAST(coalesce(sum(slots), 0) AS bigint) AS slots FROM permit
   WHERE scope = $1 AND until > $2`,
);
const SELECT_USE = statement(
  `SELECT scope, CAST(sum(slots) AS bigint) AS slots FROM permit WHERE until > $1
   GROUP BY scope HAVING sum(slots) > 0 ORDER BY scope`,
);
const FIND_EXPIRED = statement("SELECT 1 AS one FROM permit WHERE until <= $1 LIMIT 1");
const DROP_EXPIRED = statement("DELETE FROM permit WHERE until <= $1");
const DROP_OF = statement("DELETE FROM permit WHERE worker = $1");

/** The narrowest cap of a batch that is reached. */
export function* findFullCap(tx: RuleTransaction, num: number): Act<CapFacts | null> {
  type Setting = { readonly scope: CapScope; readonly name: string; readonly value: string };
  const [batch, settings] = yield* together(
    tx.get<CappedRow>(SELECT_BATCH, num),
    tx.all<Setting>(SELECT_OPERATORS, num),
  );
  if (batch === undefined) return null;
  const caps = new Map(settings.map((one) => [nameCapScope(one.scope, one.name), +one.value]));
  const scopes = listScopes(batch, {
    areSet: caps.size > 0,
    find: (scope, name) => caps.get(nameCapScope(scope, name)) ?? null,
  });
  const now = Math.floor(tx.now);
  const uses = yield* together(
    ...scopes.map(({ scope }) => tx.get<{ readonly slots: number }>(COUNT, scope, now)),
  );
  for (const [at, { scope, cap }] of scopes.entries()) {
    const used = uses[at]?.slots ?? 0;
    if (used >= cap) return { scope, cap, used };
  }
  return null;
}

/** Live slots by scope. */
export function* listCapUse(tx: RuleTransaction): Act<Permit[]> {
  yield* tx.begin();
  return yield* tx.all<Permit>(SELECT_USE, Math.floor(tx.now));
}

export function* hasExpiredPermits(tx: RuleTransaction): Act<boolean> {
  yield* tx.begin();
  return (yield* tx.get(FIND_EXPIRED, Math.floor(tx.now))) !== undefined;
}

export function* dropExpiredPermits(tx: RuleTransaction): Act<void> {
  yield* tx.begin();
  tx.send(DROP_EXPIRED, Math.floor(tx.now));
}

/** The worker is gone. */
export function dropPermitsOf(tx: RuleTransaction, worker: number): void {
  tx.send(DROP_OF, worker);
}
