/** Dead letters in SQL: finding, editing and discarding them. */
import type { StatementSync } from "node:sqlite";
import { describeAct } from "../../../core/batch/batch.ts";
import { type DeadLetterFilter, matchesDeadLetter } from "../../../core/items/redrive.ts";
import type { DiscardRequest, EditRequest } from "../../../ports/store/operator-store.ts";
import type { DeadLetter, DeadLetterPage } from "../../../ports/store/query-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { RecordLog } from "../ledger/records.ts";
import { type DeadLetterRow, toDeadLetter } from "../../sql/dead-letters.ts";
import type { BatchRow } from "../../sql/rows.ts";
import type { Steps } from "./steps.ts";

const SELECT_LETTERS = `
  SELECT i.step, i.item, i.key, i.attempts, i.deaths, i.error_class, i.code, i.message,
    i.failed_at, i.drive, i.discarded_by, i.discarded_why,
    EXISTS (SELECT 1 FROM override o
      WHERE o.batch = i.batch AND o.step = i.step AND o.item = i.item) AS edited
  FROM item i INDEXED BY item_dead WHERE i.dead = 1 AND i.batch = ? AND i.step = ?`;

const PAGE = 1_000;

export class DeadLetters {
  readonly #records: RecordLog;
  readonly #steps: Steps;
  readonly #select: StatementSync;
  readonly #selectOne: StatementSync;
  readonly #discard: StatementSync;
  readonly #putOverride: StatementSync;
  readonly #markEdited: StatementSync;
  readonly #dropCheckpoint: StatementSync;

  constructor(connection: Connection, records: RecordLog, steps: Steps) {
    this.#records = records;
    this.#steps = steps;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#select = prepare(`${SELECT_LETTERS} AND i.item > ? ORDER BY i.item`);
    this.#selectOne = prepare(`${SELECT_LETTERS} AND i.item = ?`);
    this.#discard = prepare(
      `UPDATE item SET discarded_by = ?, discarded_why = ?
       WHERE batch = ? AND step = ? AND item = ?`,
    );
    this.#putOverride = prepare(
      `INSERT INTO override (batch, step, item, value) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET value = excluded.value`,
    );
    this.#markEdited = prepare(
      "UPDATE chunk SET edited = 1 WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#dropCheckpoint = prepare(
      `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
       WHERE batch = ? AND step = ? AND item = ?`,
    );
  }

  /** In item order; read one by one, so that a filter costs no memory. */
  *#list(
    num: number,
    step: number,
    afterItem: number,
    filter: DeadLetterFilter,
  ): Generator<DeadLetter, void, void> {
    for (const row of this.#select.iterate(num, step, afterItem)) {
      const letter = toDeadLetter(row as unknown as DeadLetterRow);
      if (matchesDeadLetter(filter, letter)) yield letter;
    }
  }

  read(num: number, { step, afterItem, limit, filter }: DeadLetterPage): DeadLetter[] {
    const letters: DeadLetter[] = [];
    if (limit <= 0) return letters;
    for (const letter of this.#list(num, step, afterItem, filter)) {
      letters.push(letter);
      if (letters.length >= limit) break;
    }
    return letters;
  }

  /**
   * All that match, in item order, a page at a time: the caller may change the ones that it has
   * seen.
   */
  *walk(num: number, step: number, filter: DeadLetterFilter): Generator<DeadLetter, void, void> {
    for (let afterItem = -1; ; ) {
      const page = this.read(num, { step, afterItem, limit: PAGE, filter });
      yield* page;
      const last = page.at(-1);
      if (last === undefined) return;
      afterItem = last.item;
    }
  }

  find(num: number, step: number, item: number): DeadLetter | null {
    const row = this.#selectOne.get(num, step, item) as DeadLetterRow | undefined;
    return row === undefined ? null : toDeadLetter(row);
  }

  edit(batch: BatchRow, { step, item, value, by, why }: EditRequest): boolean {
    const { num } = batch;
    const chunk = this.#steps.findChunk(num, step, item);
    if (chunk === null || batch.pruned === 1 || this.find(num, step, item) === null) return false;
    this.#putOverride.run(num, step, item, value);
    this.#markEdited.run(num, step, chunk);
    // Checkpoints of the old payload say nothing about the new one.
    this.#dropCheckpoint.run(num, step, item);
    this.#records.record(num, {
      type: "dead_letter.edited",
      data: { step, item, ...describeAct({ by, why }) },
    });
    return true;
  }

  discard({ num }: BatchRow, steps: number, { filter, by, why }: DiscardRequest): number {
    let discarded = 0;
    for (let step = 0; step < steps; step++) {
      for (const letter of this.walk(num, step, filter)) {
        if (letter.discarded !== null) continue;
        this.#discard.run(by, why, num, step, letter.item);
        discarded++;
      }
    }
    if (discarded > 0) {
      this.#records.record(num, {
        type: "dead_letters.discarded",
        data: { items: discarded, ...describeAct({ by, why }) },
      });
    }
    return discarded;
  }
}
