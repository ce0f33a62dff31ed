/** Limits that operators set. */
import { canonicalize } from "../../../core/base/canonical-json.ts";
import type { Act as OperatorAct } from "../../../core/batch/batch.ts";
import { nameCapScope } from "../../../core/limits/caps.ts";
import type { LimitChange, LimitSetting } from "../../../core/limits/limit.ts";
import type { LimitRequest } from "../../../ports/store/operator-store.ts";
import { type ChangeRow, type SettingRow, toChange, toSetting } from "../limit-rows.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

const NAMED = "WHERE kind = $1 AND scope = $2 AND name = $3";
const FIND = statement(`SELECT value FROM limit_setting ${NAMED}`);
const PUT = statement(
  `INSERT INTO limit_setting (kind, scope, name, value) VALUES ($1, $2, $3, $4)
   ON CONFLICT (kind, scope, name) DO UPDATE SET value = excluded.value`,
);
const DROP = statement(`DELETE FROM limit_setting ${NAMED}`);
// Permits of a scope that only operators cap.
const DROP_PERMITS = statement("DELETE FROM permit WHERE scope = $1 AND declared IS NULL");
const INSERT_CHANGE = statement(
  `INSERT INTO limit_change (at, changed_by, why, kind, scope, name, before, after)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
);
const SELECT_ALL = statement(
  "SELECT kind, scope, name, value FROM limit_setting ORDER BY kind, scope, name",
);
const SELECT_CHANGES = statement(
  `SELECT seq, at, changed_by, why, kind, scope, name, before, after FROM limit_change
   WHERE seq > $1 ORDER BY seq LIMIT $2`,
);

/** False when the limit is already as it should be. */
export function* setLimit(
  tx: RuleTransaction,
  request: LimitRequest,
  { by, why }: OperatorAct,
): Act<boolean> {
  const { kind, scope, name, value } = request;
  // One change after the other: each records the previous value, and their numbers follow the
  // order of their commits, so a reader misses none.
  const [, row] = yield* together(
    tx.lock("limits", ""),
    tx.get<{ readonly value: string }>(FIND, kind, scope, name),
  );
  const before = row?.value ?? null;
  const after = value === null ? null : canonicalize(value);
  if (before === after) return false;
  if (after === null) tx.send(DROP, kind, scope, name);
  else tx.send(PUT, kind, scope, name, after);
  tx.send(INSERT_CHANGE, tx.wallMs, by, why, kind, scope, name, before, after);
  if (request.kind === "cap" && value === null) {
    tx.send(DROP_PERMITS, nameCapScope(request.scope, name));
  }
  tx.notify();
  return true;
}

export function* listLimits(tx: RuleTransaction): Act<LimitSetting[]> {
  return (yield* tx.all<SettingRow>(SELECT_ALL)).map(toSetting);
}

export function* listLimitChanges(
  tx: RuleTransaction,
  afterSeq: number,
  limit: number,
): Act<LimitChange[]> {
  return (yield* tx.all<ChangeRow>(SELECT_CHANGES, afterSeq, limit)).map(toChange);
}
