/** Removing what nobody needs any more, a few batches a transaction, in SQL. */
import type { StatementSync } from "node:sqlite";
import type { Clock } from "../../ports/clock.ts";
import type { PrunePolicy, PruneResult } from "../../ports/operating.ts";
import { computeCut, type Cut, hasMessages } from "../sql/retention-cut.ts";
import type { Connection } from "./connection.ts";
import type { Topics } from "./topics.ts";

/** Ended batches looked at in one transaction. */
const BATCHES_MAX = 20;
/** Rows removed in one transaction: a batch of many chunks goes in several. */
const ROWS_MAX = 10_000;

/** What a redrive would need, and nobody else. */
const SCRATCH_TABLES = ["manifest", "override", "item_key"] as const;
const EVIDENCE_TABLES = [
  "chunk",
  "item",
  "result",
  "abandoned",
  "content",
  "ledger_link",
  "ledger_checkpoint",
  "record",
] as const;

export class Pruning {
  readonly #clock: Clock;
  readonly #topics: Topics;
  readonly #selectScratch: StatementSync;
  readonly #selectEvidence: StatementSync;
  readonly #countEvidence: StatementSync;
  readonly #selectOwed: StatementSync;
  readonly #dropScratch: readonly StatementSync[];
  readonly #dropCheckpoints: readonly StatementSync[];
  readonly #markPruned: StatementSync;
  readonly #dropEvidence: readonly StatementSync[];
  readonly #dropBatch: readonly StatementSync[];

  constructor(connection: Connection, clock: Clock, topics: Topics) {
    this.#clock = clock;
    this.#topics = topics;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    const ended = `SELECT num FROM batch INDEXED BY batch_ended
      WHERE ended_at IS NOT NULL AND (:batch IS NULL OR id = :batch)`;
    // The records of a batch are owed while a subscriber has not come as far as its last one, or
    // has refused one that may be delivered again.
    const owed = `(EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num
      AND r.position > (SELECT min(position) FROM reader WHERE topic IS NULL))
      OR EXISTS (SELECT 1 FROM undelivered u WHERE u.batch = batch.id))`;
    this.#selectScratch = prepare(
      `${ended} AND ended_at < :before
         AND (pruned = 0 OR EXISTS (SELECT 1 FROM manifest m WHERE m.batch = batch.num)
           OR EXISTS (SELECT 1 FROM override o WHERE o.batch = batch.num))
         AND NOT (:evidence IS NOT NULL AND ended_at < :evidence)
       ORDER BY ended_at LIMIT :limit`,
    );
    this.#selectEvidence = prepare(
      `${ended} AND ended_at < :before AND NOT ${owed} ORDER BY ended_at LIMIT :limit`,
    );
    this.#countEvidence = prepare(
      `SELECT count(*) AS n FROM (${ended} AND ended_at < :before AND NOT ${owed})`,
    );
    this.#selectOwed = prepare(
      `SELECT count(*) AS n FROM (${ended} AND ended_at < :before AND ${owed})`,
    );
    this.#dropScratch = SCRATCH_TABLES.map((table) =>
      prepare(dropSome(table, table === "item_key" ? "batch, key" : keyOf(table))),
    );
    this.#dropCheckpoints = [
      `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
       WHERE batch = ? AND dead = 1 AND checkpoint_name IS NOT NULL`,
      "DELETE FROM item WHERE batch = ? AND dead = 0",
      "DELETE FROM content WHERE batch = ? AND final = 0",
    ].map(prepare);
    this.#markPruned = prepare("UPDATE batch SET pruned = 1 WHERE num = ?");
    this.#dropEvidence = EVIDENCE_TABLES.map((table) => prepare(dropSome(table, keyOf(table))));
    this.#dropBatch = [
      `DELETE FROM limit_setting WHERE kind = 'cap' AND scope = 'batch'
         AND name = (SELECT id FROM batch WHERE num = ?)`,
      "DELETE FROM step WHERE batch = ?",
      "DELETE FROM batch WHERE num = ?",
    ].map(prepare);
  }

  prune(policy: PrunePolicy): PruneResult {
    const cut = computeCut(policy, this.#clock.wallMs());
    const { evidenceBefore, batch } = cut;
    const owed = evidenceBefore === null ? 0 : count(this.#selectOwed, evidenceBefore, batch);
    if (policy.dryRun) {
      return {
        scratched: this.#listScratch(cut, -1).length,
        removed: evidenceBefore === null ? 0 : count(this.#countEvidence, evidenceBefore, batch),
        messages: hasMessages(cut) ? this.#topics.countOld(cut.scratchBefore) : 0,
        owed,
        more: false,
      };
    }
    let removed = 0;
    let rows = 0;
    const old = this.#listEvidence(cut);
    for (const num of old) {
      // Said first: a batch of many rows goes in several steps, and is not redriven in between.
      this.#markPruned.run(num);
      rows += this.#drop([...this.#dropScratch, ...this.#dropEvidence], num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched: 0, removed, messages: 0, owed, more: true };
      for (const statement of this.#dropBatch) statement.run(num);
      removed++;
    }
    let scratched = 0;
    const spent = this.#listScratch(cut, BATCHES_MAX);
    for (const num of spent) {
      this.#markPruned.run(num);
      rows += this.#drop(this.#dropScratch, num, ROWS_MAX - rows);
      if (rows >= ROWS_MAX) return { scratched, removed, messages: 0, owed, more: true };
      for (const statement of this.#dropCheckpoints) statement.run(num);
      scratched++;
    }
    const budget = ROWS_MAX - rows;
    const messages = hasMessages(cut) ? this.#topics.dropOld(cut.scratchBefore, budget) : 0;
    const more = old.length === BATCHES_MAX || spent.length === BATCHES_MAX || messages === budget;
    return { scratched, removed, messages, owed, more };
  }

  #listScratch(cut: Cut, limit: number): number[] {
    const { scratchBefore: before, evidenceBefore: evidence, batch } = cut;
    if (before === null) return [];
    return list(this.#selectScratch.all({ before, evidence, batch, limit }));
  }

  #listEvidence({ evidenceBefore: before, batch }: Cut): number[] {
    if (before === null) return [];
    return list(this.#selectEvidence.all({ before, batch, limit: BATCHES_MAX }));
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
  if (table === "ledger_checkpoint") return "batch, size";
  if (table === "content") return "content";
  if (table === "chunk" || table === "manifest" || table === "abandoned") {
    return "batch, step, chunk";
  }
  return "batch, step, item";
}

/** SQLite as it is built here has no DELETE ... LIMIT. */
function dropSome(table: string, key: string): string {
  return `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE batch = ? LIMIT ?)`;
}

function list(rows: unknown): number[] {
  return (rows as { num: number }[]).map(({ num }) => num);
}

function count(statement: StatementSync, before: number, batch: string | null): number {
  return (statement.get({ before, batch }) as { n: number }).n;
}
