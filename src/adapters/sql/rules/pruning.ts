/** Removes expired data, a few batches a transaction, in SQL. */
import { ENDED_STATES } from "../../../core/batch/batch.ts";
import { LEDGER_SIGNER } from "../../../core/events/reader-name.ts";
import type { PrunePolicy, PruneResult } from "../../../ports/store/operator-store.ts";
import { type Act, answered, together } from "../dialect/act.ts";
import { type SharedStatement, statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { computeCut, type Cut, hasMessages } from "../retention-cut.ts";
import { countOldMessages, dropOldMessages } from "../topics/old-messages.ts";
import { NEVER } from "../topics/topics.ts";

/** Ended batches per transaction, both for those without ages of their own and for the others. */
const BATCHES_MAX = 20;
/** Rows removed in one transaction: a batch of many chunks needs several. */
const ROWS_MAX = 10_000;

// A subscriber still needs the records of a batch if it has not reached the last one, or if one
// that it refused may be delivered again. On a server a record may have no position yet: it has
// been delivered to no subscriber.
const OWED = `(EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num
  AND /*sqlite r.position*//*postgres coalesce(r.position, ${NEVER})*/ > (
    SELECT min(position) FROM reader WHERE topic IS NULL AND name <> '${LEDGER_SIGNER}'))
  OR EXISTS (SELECT 1 FROM undelivered u WHERE u.batch = batch.id AND u.reader <> '${LEDGER_SIGNER}'))`;
/** No other batch is ever pruned: one that was reopened has not ended, whatever its times say. */
const ENDED = `ended_at IS NOT NULL
  AND state IN (${ENDED_STATES.map((state) => `'${state}'`).join(", ")})`;
// Each kind has its own index, so that no search reads rows that are kept. A batch whose own
// redrive age is longer than the general evidence age is passed over: it needs its evidence.
const WHOLE_BY_AGE = `/*sqlite INDEXED BY batch_evidence_by_age*/
  WHERE ${ENDED} AND keep_evidence_ms IS NULL AND ended_at < :evidence
    AND (keep_ms IS NULL OR ended_at + keep_ms < :now)`;
const WHOLE_DUE = `/*sqlite INDEXED BY batch_evidence_due*/
  WHERE ${ENDED} AND keep_evidence_ms > 0 AND ended_at + keep_evidence_ms < :now`;
/** By ages that the caller gave for this batch alone. */
const WHOLE_ONE = `WHERE id = :batch AND ${ENDED} AND ended_at < :evidence`;
/** The whole batch is not removed. */
const STAYS = `(CASE WHEN keep_evidence_ms IS NULL THEN coalesce(ended_at >= :evidence, true)
  ELSE keep_evidence_ms = 0 OR ended_at + keep_evidence_ms >= :now END)`;
const SCRATCH_BY_AGE = `/*sqlite INDEXED BY batch_scratch_by_age*/
  WHERE ${ENDED} AND spent = 0 AND keep_ms IS NULL AND ended_at < :scratch AND ${STAYS}`;
const SCRATCH_DUE = `/*sqlite INDEXED BY batch_scratch_due*/
  WHERE ${ENDED} AND spent = 0 AND keep_ms IS NOT NULL AND ended_at + keep_ms < :now
    AND ${STAYS}`;
const SCRATCH_ONE = `WHERE id = :batch AND ${ENDED} AND spent = 0 AND ended_at < :scratch
  AND coalesce(ended_at >= :evidence, true)`;

const SCRATCH: Searches = {
  byAge: search(SCRATCH_BY_AGE, "ended_at"),
  due: search(SCRATCH_DUE, "ended_at + keep_ms"),
  one: search(SCRATCH_ONE, "ended_at"),
};
const WHOLE = searchWhole(`NOT ${OWED}`);
const OWED_WHOLE = searchWhole(OWED);
// Blocks a subscriber from moving back until it is decided which records are removed.
const KEEP_READERS = statement(
  `SELECT 1 FROM reader WHERE topic IS NULL AND name <> '${LEDGER_SIGNER}' ORDER BY name FOR SHARE`,
);
/** Data that only a redrive would need. */
const DROP_SCRATCH = [
  dropSome("manifest", "batch, step, chunk"),
  dropSome("override", "batch, step, item"),
  dropSome("item_key", "batch, key"),
];
/** Its records first: a chain without its first link is being removed, and is not broken. */
const DROP_EVIDENCE = [
  // A record may move meanwhile: when it gets its position.
  dropSome("record", "position", { movable: "seq", order: "ORDER BY seq" }),
  dropSome("ledger_link", "batch, seq"),
  dropSome("ledger_head", "batch, size"),
  dropSome("chunk", "batch, step, chunk"),
  dropSome("item", "batch, step, item"),
  dropSome("result", "batch, step, item"),
  dropSome("abandoned", "batch, step, chunk"),
  dropSome("content", "content", { movable: "content" }),
];
/** Only a server has them. */
const DROP_LEASES = dropSome("lease", "batch, step, first");
const DROP_CHECKPOINTS = [
  `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
   WHERE batch = $1 AND dead = 1 AND checkpoint_name IS NOT NULL`,
  "DELETE FROM item WHERE batch = $1 AND dead = 0",
  "DELETE FROM content WHERE batch = $1 AND final = 0",
  "UPDATE batch SET spent = 1 WHERE num = $1",
].map(statement);
const MARK_PRUNED = statement("UPDATE batch SET pruned = 1 WHERE num = $1 AND pruned = 0");
const DROP_BATCH = [
  `DELETE FROM undelivered WHERE reader = '${LEDGER_SIGNER}'
     AND batch = (SELECT id FROM batch WHERE num = $1)`,
  `DELETE FROM limit_setting WHERE kind = 'cap' AND scope = 'batch'
     AND name = (SELECT id FROM batch WHERE num = $1)`,
  "DELETE FROM step WHERE batch = $1",
  "DELETE FROM batch WHERE num = $1",
].map(statement);

export function* prune(tx: RuleTransaction, policy: PrunePolicy): Act<PruneResult> {
  yield* tx.begin();
  const cut = computeCut(policy, tx.wallMs);
  return yield* policy.dryRun ? countAll(tx, cut) : remove(tx, cut);
}

function* countAll(tx: RuleTransaction, cut: Cut): Act<PruneResult> {
  const [scratched, removed, messages, owed] = yield* together(
    count(tx, SCRATCH, cut),
    count(tx, WHOLE, cut),
    hasMessages(cut) ? countOldMessages(tx, cut.scratchBefore) : answered(0),
    count(tx, OWED_WHOLE, cut),
  );
  return { scratched, removed, messages, owed, more: false };
}

function* remove(tx: RuleTransaction, cut: Cut): Act<PruneResult> {
  const [, owed, old] = yield* together(
    tx.isRemote ? tx.run(KEEP_READERS) : answered(0),
    count(tx, OWED_WHOLE, cut),
    list(tx, WHOLE, cut),
  );
  const evidence = tx.isRemote ? [...DROP_EVIDENCE, DROP_LEASES] : DROP_EVIDENCE;
  let removed = 0;
  let rows = 0;
  for (const num of old.found) {
    // Written first: a batch with many rows is removed in several steps, and must not be redriven
    // in between.
    tx.send(MARK_PRUNED, num);
    rows += yield* drop(tx, [...DROP_SCRATCH, ...evidence], num, ROWS_MAX - rows);
    if (rows >= ROWS_MAX) return { scratched: 0, removed, messages: 0, owed, more: true };
    for (const removal of DROP_BATCH) tx.send(removal, num);
    removed++;
  }
  let scratched = 0;
  const spent = yield* list(tx, SCRATCH, cut);
  for (const num of spent.found) {
    tx.send(MARK_PRUNED, num);
    rows += yield* drop(tx, DROP_SCRATCH, num, ROWS_MAX - rows);
    if (rows >= ROWS_MAX) return { scratched, removed, messages: 0, owed, more: true };
    for (const removal of DROP_CHECKPOINTS) tx.send(removal, num);
    scratched++;
  }
  const budget = ROWS_MAX - rows;
  const messages = hasMessages(cut) ? yield* dropOldMessages(tx, cut.scratchBefore, budget) : 0;
  const more = old.more || spent.more || messages === budget;
  return { scratched, removed, messages, owed, more };
}

/**
 * A query for some batches, locked, and one for their number; with the names of their values, in
 * order.
 */
interface Search {
  readonly select: SharedStatement;
  readonly count: SharedStatement;
  readonly names: readonly CutName[];
}

interface Searches {
  /** Batches without ages of their own. */
  readonly byAge: Search;
  /** Batches with ages of their own. */
  readonly due: Search;
  /** The named batch. */
  readonly one: Search;
}

type CutName = "scratch" | "evidence" | "now" | "batch";

function search(named: string, order: string): Search {
  const names: CutName[] = [];
  const where = named.replaceAll(/:(scratch|evidence|now|batch)\b/g, (_, name: CutName) => {
    if (!names.includes(name)) names.push(name);
    return `$${names.indexOf(name) + 1}`;
  });
  // A batch that another transaction has locked is in use: it is pruned another time.
  return {
    select: statement(
      `SELECT num FROM batch ${where} /*postgres ORDER BY ${order}*/ LIMIT ${BATCHES_MAX}
       /*postgres FOR NO KEY UPDATE OF batch SKIP LOCKED*/`,
    ),
    count: statement(`SELECT count(*) AS n FROM batch ${where}`),
    names,
  };
}

function searchWhole(which: string): Searches {
  return {
    byAge: search(`${WHOLE_BY_AGE} AND ${which}`, "ended_at"),
    due: search(`${WHOLE_DUE} AND ${which}`, "ended_at + keep_evidence_ms"),
    one: search(`${WHOLE_ONE} AND ${which}`, "ended_at"),
  };
}

function pick({ byAge, due, one }: Searches, { batch }: Cut): readonly Search[] {
  return batch === null ? [byAge, due] : [one];
}

/** Some of the batches to remove, locked. */
function* list(
  tx: RuleTransaction,
  searches: Searches,
  cut: Cut,
): Act<{ readonly found: number[]; readonly more: boolean }> {
  const lists = yield* together(
    ...pick(searches, cut).map(({ select, names }) =>
      tx.all<{ readonly num: number }>(select, ...bind(names, cut)),
    ),
  );
  return {
    found: lists.flat().map(({ num }) => num),
    more: lists.some(({ length }) => length === BATCHES_MAX),
  };
}

function* count(tx: RuleTransaction, searches: Searches, cut: Cut): Act<number> {
  const rows = yield* together(
    ...pick(searches, cut).map((one) =>
      tx.get<{ readonly n: number }>(one.count, ...bind(one.names, cut)),
    ),
  );
  return rows.reduce((sum, row) => sum + (row?.n ?? 0), 0);
}

function bind(names: readonly CutName[], cut: Cut): (number | string | null)[] {
  const { scratchBefore: scratch, evidenceBefore: evidence, now, batch } = cut;
  const values = { scratch, evidence, now, batch };
  return names.map((name) => values[name]);
}

function* drop(
  tx: RuleTransaction,
  removals: readonly SharedStatement[],
  num: number,
  budget: number,
): Act<number> {
  let rows = 0;
  for (const removal of removals) {
    if (rows >= budget) break;
    rows += yield* tx.run(removal, num, budget - rows);
  }
  return rows;
}

/**
 * By a list that is made first: the SQLite of Node is built without DELETE ... LIMIT, and the
 * planner of PostgreSQL would choose the join by its estimates. PostgreSQL finds the rows where
 * they are, or by the key of those that may move meanwhile.
 */
function dropSome(
  table: string,
  key: string,
  { movable, order = "" }: { readonly movable?: string; readonly order?: string } = {},
): SharedStatement {
  const some = (column: string): string =>
    `SELECT ${column} FROM ${table} WHERE batch = $1 ${order} LIMIT $2`;
  const which = movable === undefined ? "" : "batch = $1 AND ";
  const spot = movable ?? "ctid";
  return statement(
    `DELETE FROM ${table} WHERE /*sqlite (${key}) IN (${some(key)})*/
     /*postgres ${which}${spot} = ANY(ARRAY(${some(spot)}))*/`,
  );
}
