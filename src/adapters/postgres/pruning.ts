/** Removing what nobody needs any more, a few batches a transaction, in SQL. */
import type { PrunePolicy, PruneResult } from "../../ports/operating.ts";
import { computeCut, type Cut, hasMessages } from "../sql/retention-cut.ts";
import { type Statement, statement } from "./statement.ts";
import { NEVER, type Topics } from "./topics.ts";
import type { Transaction } from "./transaction.ts";

/** Ended batches looked at in one transaction. */
const BATCHES_MAX = 20;
/** Rows removed in one transaction: a batch of many chunks goes in several. */
const ROWS_MAX = 10_000;

/** What a redrive would need, and nobody else. */
const SCRATCH_TABLES = ["manifest", "override", "item_key"] as const;
const EVIDENCE_TABLES = [
  "lease",
  "chunk",
  "item",
  "result",
  "abandoned",
  "content",
  "ledger_link",
  "ledger_checkpoint",
  "record",
] as const;

/** Ended before $1; $2 names one alone. */
const ENDED = `FROM batch WHERE ended_at IS NOT NULL AND ended_at < $1
  AND ($2::text IS NULL OR id = $2)`;
// The records of a batch are owed while a subscriber has not come as far as its last one, or has
// refused one that may be delivered again. One without a position has been seen by nobody.
const OWED = `(EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num
  AND coalesce(r.position, ${NEVER}) > (SELECT min(position) FROM reader WHERE topic IS NULL))
  OR EXISTS (SELECT 1 FROM undelivered u WHERE u.batch = batch.id))`;
/** Not those that go whole, having ended before $3. */
const SCRATCH = `${ENDED}
  AND (pruned = 0 OR EXISTS (SELECT 1 FROM manifest m WHERE m.batch = batch.num)
    OR EXISTS (SELECT 1 FROM override o WHERE o.batch = batch.num))
  AND ($3::bigint IS NULL OR ended_at >= $3)`;
const EVIDENCE = `${ENDED} AND NOT ${OWED}`;
/** Whoever has a batch now is at work on it: it goes another time. */
const LOCK = `ORDER BY ended_at LIMIT ${BATCHES_MAX} FOR NO KEY UPDATE OF batch SKIP LOCKED`;

const SELECT_SCRATCH = statement(`SELECT num ${SCRATCH} ${LOCK}`);
const COUNT_SCRATCH = statement(`SELECT count(*) AS n ${SCRATCH}`);
const SELECT_EVIDENCE = statement(`SELECT num ${EVIDENCE} ${LOCK}`);
const COUNT_EVIDENCE = statement(`SELECT count(*) AS n ${EVIDENCE}`);
const COUNT_OWED = statement(`SELECT count(*) AS n ${ENDED} AND ${OWED}`);
// A subscriber that somebody moves back meanwhile waits until it is decided what goes.
const KEEP_READERS = statement("SELECT 1 FROM reader WHERE topic IS NULL ORDER BY name FOR SHARE");
const DROP_SCRATCH = SCRATCH_TABLES.map(dropSome);
const DROP_CHECKPOINTS = [
  `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
   WHERE batch = $1 AND dead = 1 AND checkpoint_name IS NOT NULL`,
  "DELETE FROM item WHERE batch = $1 AND dead = 0",
  "DELETE FROM content WHERE batch = $1 AND final = 0",
].map(statement);
const MARK_PRUNED = statement("UPDATE batch SET pruned = 1 WHERE num = $1 AND pruned = 0");
const DROP_EVIDENCE = EVIDENCE_TABLES.map(dropSome);
const DROP_BATCH = [
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
    const { scratchBefore: scratch, evidenceBefore: evidence, batch } = cut;
    const [scratched, removed, messages, owed] = await Promise.all([
      scratch === null ? 0 : count(tx, COUNT_SCRATCH, scratch, batch, evidence),
      evidence === null ? 0 : count(tx, COUNT_EVIDENCE, evidence, batch),
      hasMessages(cut) ? this.#topics.countOld(tx, cut.scratchBefore) : 0,
      countOwed(tx, cut),
    ]);
    return { scratched, removed, messages, owed, more: false };
  }

  async #remove(tx: Transaction, cut: Cut): Promise<PruneResult> {
    const [, owed, old] = await Promise.all([
      tx.run(KEEP_READERS),
      countOwed(tx, cut),
      listEvidence(tx, cut),
    ]);
    let removed = 0;
    let rows = 0;
    for (const num of old) {
      // Said first: a batch of many rows goes in several steps, and is not redriven in between.
      tx.send(MARK_PRUNED, num);
      rows += await drop(tx, [...DROP_SCRATCH, ...DROP_EVIDENCE], num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched: 0, removed, messages: 0, owed, more: true };
      for (const removal of DROP_BATCH) tx.send(removal, num);
      removed++;
    }
    let scratched = 0;
    const spent = await listScratch(tx, cut);
    for (const num of spent) {
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
    const more = old.length === BATCHES_MAX || spent.length === BATCHES_MAX || messages === budget;
    return { scratched, removed, messages, owed, more };
  }
}

/** What ended before an instant within a millisecond ended before the next whole one. */
function roundUp({ scratchBefore, evidenceBefore, batch }: Cut): Cut {
  const round = (at: number | null): number | null => (at === null ? null : Math.ceil(at));
  return { scratchBefore: round(scratchBefore), evidenceBefore: round(evidenceBefore), batch };
}

async function countOwed(tx: Transaction, { evidenceBefore, batch }: Cut): Promise<number> {
  return evidenceBefore === null ? 0 : count(tx, COUNT_OWED, evidenceBefore, batch);
}

/** Those that go with their scratch data, locked. */
async function listScratch(tx: Transaction, cut: Cut): Promise<number[]> {
  const { scratchBefore: before, evidenceBefore: evidence, batch } = cut;
  if (before === null) return [];
  return list(await tx.all(SELECT_SCRATCH, before, batch, evidence));
}

/** Those that go whole, locked. */
async function listEvidence(
  tx: Transaction,
  { evidenceBefore: before, batch }: Cut,
): Promise<number[]> {
  if (before === null) return [];
  return list(await tx.all(SELECT_EVIDENCE, before, batch));
}

function list(rows: readonly { readonly num: number }[]): number[] {
  return rows.map(({ num }) => num);
}

async function count(
  tx: Transaction,
  question: Statement,
  ...values: readonly (string | number | null)[]
): Promise<number> {
  return (await tx.get<{ readonly n: number }>(question, ...values))?.n ?? 0;
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

/** By a list that is made first: how a join goes would be left to what the server believes. */
function dropSome(table: Table): Statement {
  const key = findMovable(table);
  const some = (column: string): string =>
    `${column} = ANY(ARRAY(SELECT ${column} FROM ${table} WHERE batch = $1 LIMIT $2))`;
  const which = key === null ? some("ctid") : `batch = $1 AND ${some(key)}`;
  return statement(`DELETE FROM ${table} WHERE ${which}`);
}

/** The key of rows that may move meanwhile: a record does when it gets its position. */
function findMovable(table: Table): string | null {
  if (table === "record") return "seq";
  return table === "content" ? "content" : null;
}
