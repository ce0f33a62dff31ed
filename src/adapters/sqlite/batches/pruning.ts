/** Removes expired data, a few batches a transaction, in SQL. */
import type { StatementSync } from "node:sqlite";
import { LEDGER_SIGNER } from "../../../core/events/reader-name.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { PrunePolicy, PruneResult } from "../../../ports/store/operator-store.ts";
import { computeCut, type Cut, hasMessages } from "../../sql/retention-cut.ts";
import type { Connection } from "../connection/connection.ts";
import type { Topics } from "../topics/topics.ts";

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
  "chunk",
  "item",
  "result",
  "abandoned",
  "content",
] as const;

// Each kind has its own index, so that no search reads rows that are kept. A batch whose own
// redrive age is longer than the general evidence age is passed over: it needs its evidence.
const WHOLE_BY_AGE = `FROM batch INDEXED BY batch_evidence_by_age
  WHERE ended_at IS NOT NULL AND keep_evidence_ms IS NULL AND ended_at < :evidence
    AND (keep_ms IS NULL OR ended_at + keep_ms < :now)`;
const WHOLE_DUE = `FROM batch INDEXED BY batch_evidence_due
  WHERE ended_at IS NOT NULL AND keep_evidence_ms > 0 AND ended_at + keep_evidence_ms < :now`;
/** By ages that the caller gave for this batch alone. */
const WHOLE_ONE = "FROM batch WHERE id = :batch AND ended_at < :evidence";
/** The whole batch is not removed. */
const STAYS = `(CASE WHEN keep_evidence_ms IS NULL THEN coalesce(ended_at >= :evidence, 1)
  ELSE keep_evidence_ms = 0 OR ended_at + keep_evidence_ms >= :now END)`;
const SCRATCH_BY_AGE = `FROM batch INDEXED BY batch_scratch_by_age
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NULL AND ended_at < :scratch AND ${STAYS}`;
const SCRATCH_DUE = `FROM batch INDEXED BY batch_scratch_due
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NOT NULL AND ended_at + keep_ms < :now
    AND ${STAYS}`;
const SCRATCH_ONE = `FROM batch WHERE id = :batch AND spent = 0 AND ended_at < :scratch
  AND coalesce(ended_at >= :evidence, 1)`;

// A subscriber still needs the records of a batch if it has not reached the last one, or if one
// that it refused may be delivered again.
const OWED = `(EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num AND r.position > (
    SELECT min(position) FROM reader WHERE topic IS NULL AND name <> '${LEDGER_SIGNER}'))
  OR EXISTS (SELECT 1 FROM undelivered u WHERE u.batch = batch.id AND u.reader <> '${LEDGER_SIGNER}'))`;

export class Pruning {
  readonly #clock: Clock;
  readonly #topics: Topics;
  readonly #scratch: Searches;
  readonly #whole: Searches;
  readonly #owed: Searches;
  readonly #dropScratch: readonly StatementSync[];
  readonly #dropCheckpoints: readonly StatementSync[];
  readonly #markPruned: StatementSync;
  readonly #dropEvidence: readonly StatementSync[];
  readonly #dropBatch: readonly StatementSync[];

  constructor(connection: Connection, clock: Clock, topics: Topics) {
    this.#clock = clock;
    this.#topics = topics;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    const search = (where: string): Search => ({
      select: named(prepare(`SELECT num ${where} LIMIT ${BATCHES_MAX}`)),
      count: named(prepare(`SELECT count(*) AS n ${where}`)),
    });
    const searchWhole = (which: string): Searches => ({
      byAge: search(`${WHOLE_BY_AGE} AND ${which}`),
      due: search(`${WHOLE_DUE} AND ${which}`),
      one: search(`${WHOLE_ONE} AND ${which}`),
    });
    this.#scratch = {
      byAge: search(SCRATCH_BY_AGE),
      due: search(SCRATCH_DUE),
      one: search(SCRATCH_ONE),
    };
    this.#whole = searchWhole(`NOT ${OWED}`);
    this.#owed = searchWhole(OWED);
    this.#dropScratch = SCRATCH_TABLES.map((table) =>
      prepare(dropSome(table, table === "item_key" ? "batch, key" : keyOf(table))),
    );
    this.#dropCheckpoints = [
      `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
       WHERE batch = ? AND dead = 1 AND checkpoint_name IS NOT NULL`,
      "DELETE FROM item WHERE batch = ? AND dead = 0",
      "DELETE FROM content WHERE batch = ? AND final = 0",
      "UPDATE batch SET spent = 1 WHERE num = ?",
    ].map(prepare);
    this.#markPruned = prepare("UPDATE batch SET pruned = 1 WHERE num = ?");
    this.#dropEvidence = EVIDENCE_TABLES.map((table) => prepare(dropSome(table, keyOf(table))));
    this.#dropBatch = [
      `DELETE FROM undelivered WHERE reader = '${LEDGER_SIGNER}'
         AND batch = (SELECT id FROM batch WHERE num = ?)`,
      `DELETE FROM limit_setting WHERE kind = 'cap' AND scope = 'batch'
         AND name = (SELECT id FROM batch WHERE num = ?)`,
      "DELETE FROM step WHERE batch = ?",
      "DELETE FROM batch WHERE num = ?",
    ].map(prepare);
  }

  prune(policy: PrunePolicy): PruneResult {
    const cut = computeCut(policy, this.#clock.wallMs());
    const owed = count(this.#owed, cut);
    if (policy.dryRun) {
      return {
        scratched: count(this.#scratch, cut),
        removed: count(this.#whole, cut),
        messages: hasMessages(cut) ? this.#topics.countOld(cut.scratchBefore) : 0,
        owed,
        more: false,
      };
    }
    let removed = 0;
    let rows = 0;
    const old = list(this.#whole, cut);
    for (const num of old.found) {
      // Written first: a batch with many rows is removed in several steps, and must not be redriven
      // in between.
      this.#markPruned.run(num);
      rows += this.#drop([...this.#dropScratch, ...this.#dropEvidence], num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched: 0, removed, messages: 0, owed, more: true };
      for (const statement of this.#dropBatch) statement.run(num);
      removed++;
    }
    let scratched = 0;
    const spent = list(this.#scratch, cut);
    for (const num of spent.found) {
      this.#markPruned.run(num);
      rows += this.#drop(this.#dropScratch, num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched, removed, messages: 0, owed, more: true };
      for (const statement of this.#dropCheckpoints) statement.run(num);
      scratched++;
    }
    const budget = ROWS_MAX - rows;
    const messages = hasMessages(cut) ? this.#topics.dropOld(cut.scratchBefore, budget) : 0;
    const more = old.more || spent.more || messages === budget;
    return { scratched, removed, messages, owed, more };
  }

  #drop(statements: readonly StatementSync[], num: number, budget: number): number {
    let rows = 0;
    for (const statement of statements) {
      if (rows >= budget) break;
      rows += Number(statement.run(num, budget - rows).changes);
    }
    return rows;
  }
}

function keyOf(table: string): string {
  if (table === "record") return "position";
  if (table === "ledger_link") return "batch, seq";
  if (table === "ledger_head") return "batch, size";
  if (table === "content") return "content";
  if (table === "chunk" || table === "manifest" || table === "abandoned") {
    return "batch, step, chunk";
  }
  return "batch, step, item";
}

/** The SQLite of Node is built without DELETE ... LIMIT. */
function dropSome(table: string, key: string): string {
  const order = table === "record" ? "ORDER BY seq" : "";
  return `DELETE FROM ${table} WHERE (${key}) IN (
    SELECT ${key} FROM ${table} WHERE batch = ? ${order} LIMIT ?)`;
}

/** A query for some batches, and one for their number. */
interface Search {
  readonly select: StatementSync;
  readonly count: StatementSync;
}

interface Searches {
  /** Batches without ages of their own. */
  readonly byAge: Search;
  /** Batches with ages of their own. */
  readonly due: Search;
  /** The named batch. */
  readonly one: Search;
}

/** Not every query uses all values of a cut. */
function named(statement: StatementSync): StatementSync {
  statement.setAllowUnknownNamedParameters(true);
  return statement;
}

function pick({ byAge, due, one }: Searches, { batch }: Cut): readonly Search[] {
  return batch === null ? [byAge, due] : [one];
}

function list(searches: Searches, cut: Cut): { readonly found: number[]; readonly more: boolean } {
  const lists = pick(searches, cut).map(({ select }) =>
    (select.all(bind(cut)) as { num: number }[]).map(({ num }) => num),
  );
  return { found: lists.flat(), more: lists.some(({ length }) => length === BATCHES_MAX) };
}

function count(searches: Searches, cut: Cut): number {
  return pick(searches, cut)
    .map((search) => (search.count.get(bind(cut)) as { n: number }).n)
    .reduce((sum, n) => sum + n);
}

function bind({ scratchBefore: scratch, evidenceBefore: evidence, now, batch }: Cut): {
  readonly [name: string]: number | string | null;
} {
  return { scratch, evidence, now, batch };
}
