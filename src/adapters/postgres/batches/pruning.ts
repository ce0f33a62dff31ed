/** Removes expired data, a few batches a transaction, in SQL. */
import { LEDGER_SIGNER } from "../../../core/events/reader-name.ts";
import type { PrunePolicy, PruneResult } from "../../../ports/store/operator-store.ts";
import { computeCut, type Cut, hasMessages } from "../../sql/retention-cut.ts";
import { type Statement, statement } from "../connection/statement.ts";
import { NEVER, type Topics } from "../topics/topics.ts";
import type { Transaction } from "../connection/transaction.ts";

/** Ended batches per transaction, both for those without ages of their own and for the others. */
const BATCHES_MAX = 20;
/** Rows removed in one transaction: a batch of many chunks needs several. */
const ROWS_MAX = 10_000;

/** Data that only a redrive would need. */
const SCRATCH_TABLES = ["manifest", "override", "item_key"] as const;
/** Its records first: a chain without its first link is being removed, and is not broken. */
const EVIDENCE_TABLES = [
  "record",
  "ledger_link",
  "ledger_head",
  "lease",
  "chunk",
  "item",
  "result",
  "abandoned",
  "content",
] as const;

// A subscriber still needs the records of a batch if it has not reached the last one, or if one
// that it refused may be delivered again. A record without a position has been delivered to no
// subscriber.
const OWED = `(EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num
  AND coalesce(r.position, ${NEVER}) > (
    SELECT min(position) FROM reader WHERE topic IS NULL AND name <> '${LEDGER_SIGNER}'))
  OR EXISTS (SELECT 1 FROM undelivered u WHERE u.batch = batch.id AND u.reader <> '${LEDGER_SIGNER}'))`;
// Each kind has its own index, so that no search reads rows that are kept. A batch whose own
// redrive age is longer than the general evidence age is passed over: it needs its evidence.
const WHOLE_BY_AGE = `ended_at IS NOT NULL AND keep_evidence_ms IS NULL AND ended_at < :evidence
  AND (keep_ms IS NULL OR ended_at + keep_ms < :now)`;
const WHOLE_DUE = `ended_at IS NOT NULL AND keep_evidence_ms > 0
  AND ended_at + keep_evidence_ms < :now`;
/** By ages that the caller gave for this batch alone. */
const WHOLE_ONE = "id = :batch AND ended_at < :evidence";
/** The whole batch is not removed. */
const STAYS = `(CASE WHEN keep_evidence_ms IS NULL THEN coalesce(ended_at >= :evidence, true)
  ELSE keep_evidence_ms = 0 OR ended_at + keep_evidence_ms >= :now END)`;
const SCRATCH_BY_AGE = `ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NULL
  AND ended_at < :scratch AND ${STAYS}`;
const SCRATCH_DUE = `ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NOT NULL
  AND ended_at + keep_ms < :now AND ${STAYS}`;
const SCRATCH_ONE = `id = :batch AND spent = 0 AND ended_at < :scratch
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
const DROP_SCRATCH = SCRATCH_TABLES.map(dropSome);
const DROP_CHECKPOINTS = [
  `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
   WHERE batch = $1 AND dead = 1 AND checkpoint_name IS NOT NULL`,
  "DELETE FROM item WHERE batch = $1 AND dead = 0",
  "DELETE FROM content WHERE batch = $1 AND final = 0",
  "UPDATE batch SET spent = 1 WHERE num = $1",
].map(statement);
const MARK_PRUNED = statement("UPDATE batch SET pruned = 1 WHERE num = $1 AND pruned = 0");
const DROP_EVIDENCE = EVIDENCE_TABLES.map(dropSome);
const DROP_BATCH = [
  `DELETE FROM undelivered WHERE reader = '${LEDGER_SIGNER}'
     AND batch = (SELECT id FROM batch WHERE num = $1)`,
  `DELETE FROM limit_setting WHERE kind = 'cap' AND scope = 'batch'
     AND name = (SELECT id FROM batch WHERE num = $1)`,
  "DELETE FROM step WHERE batch = $1",
  "DELETE FROM batch WHERE num = $1",
].map(statement);

export class Pruning {
  readonly #topics: Topics;

  constructor(topics: Topics) {
    this.#topics = topics;
  }

  async prune(tx: Transaction, policy: PrunePolicy): Promise<PruneResult> {
    await tx.begin();
    const cut = roundUp(computeCut(policy, tx.wallMs));
    return policy.dryRun ? this.#count(tx, cut) : this.#remove(tx, cut);
  }

  async #count(tx: Transaction, cut: Cut): Promise<PruneResult> {
    const [scratched, removed, messages, owed] = await Promise.all([
      count(tx, SCRATCH, cut),
      count(tx, WHOLE, cut),
      hasMessages(cut) ? this.#topics.countOld(tx, cut.scratchBefore) : 0,
      count(tx, OWED_WHOLE, cut),
    ]);
    return { scratched, removed, messages, owed, more: false };
  }

  async #remove(tx: Transaction, cut: Cut): Promise<PruneResult> {
    const [, owed, old] = await Promise.all([
      tx.run(KEEP_READERS),
      count(tx, OWED_WHOLE, cut),
      list(tx, WHOLE, cut),
    ]);
    let removed = 0;
    let rows = 0;
    for (const num of old.found) {
      // Written first: a batch with many rows is removed in several steps, and must not be redriven
      // in between.
      tx.send(MARK_PRUNED, num);
      rows += await drop(tx, [...DROP_SCRATCH, ...DROP_EVIDENCE], num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched: 0, removed, messages: 0, owed, more: true };
      for (const removal of DROP_BATCH) tx.send(removal, num);
      removed++;
    }
    let scratched = 0;
    const spent = await list(tx, SCRATCH, cut);
    for (const num of spent.found) {
      tx.send(MARK_PRUNED, num);
      rows += await drop(tx, DROP_SCRATCH, num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched, removed, messages: 0, owed, more: true };
      for (const removal of DROP_CHECKPOINTS) tx.send(removal, num);
      scratched++;
    }
    const budget = ROWS_MAX - rows;
    const messages = hasMessages(cut)
      ? await this.#topics.dropOld(tx, cut.scratchBefore, budget)
      : 0;
    const more = old.more || spent.more || messages === budget;
    return { scratched, removed, messages, owed, more };
  }
}

/** An instant within a millisecond counts as the next whole one. */
function roundUp({ scratchBefore, evidenceBefore, now, batch }: Cut): Cut {
  const round = (at: number | null): number | null => (at === null ? null : Math.ceil(at));
  return {
    scratchBefore: round(scratchBefore),
    evidenceBefore: round(evidenceBefore),
    now: Math.ceil(now),
    batch,
  };
}

/**
 * A query for some batches, locked, and one for their number; with the names of their values, in
 * order.
 */
interface Search {
  readonly select: Statement;
  readonly count: Statement;
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
  const lock = `ORDER BY ${order} LIMIT ${BATCHES_MAX} FOR NO KEY UPDATE OF batch SKIP LOCKED`;
  return {
    select: statement(`SELECT num FROM batch WHERE ${where} ${lock}`),
    count: statement(`SELECT count(*) AS n FROM batch WHERE ${where}`),
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
async function list(
  tx: Transaction,
  searches: Searches,
  cut: Cut,
): Promise<{ readonly found: number[]; readonly more: boolean }> {
  const lists = await Promise.all(
    pick(searches, cut).map(({ select, names }) =>
      tx.all<{ readonly num: number }>(select, ...bind(names, cut)),
    ),
  );
  return {
    found: lists.flat().map(({ num }) => num),
    more: lists.some(({ length }) => length === BATCHES_MAX),
  };
}

async function count(tx: Transaction, searches: Searches, cut: Cut): Promise<number> {
  const rows = await Promise.all(
    pick(searches, cut).map((one) =>
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

async function drop(
  tx: Transaction,
  removals: readonly Statement[],
  num: number,
  budget: number,
): Promise<number> {
  let rows = 0;
  for (const removal of removals) {
    if (rows >= budget) break;
    rows += await tx.run(removal, num, budget - rows);
  }
  return rows;
}

type Table = (typeof SCRATCH_TABLES)[number] | (typeof EVIDENCE_TABLES)[number];

/** By a list that is made first: otherwise the planner would choose the join by its estimates. */
function dropSome(table: Table): Statement {
  const key = findMovable(table);
  const order = table === "record" ? "ORDER BY seq" : "";
  const some = (column: string): string =>
    `${column} = ANY(ARRAY(SELECT ${column} FROM ${table} WHERE batch = $1 ${order} LIMIT $2))`;
  const which = key === null ? some("ctid") : `batch = $1 AND ${some(key)}`;
  return statement(`DELETE FROM ${table} WHERE ${which}`);
}

/** The key of rows that may move meanwhile: a record moves when it gets its position. */
function findMovable(table: Table): string | null {
  if (table === "record") return "seq";
  return table === "content" ? "content" : null;
}
