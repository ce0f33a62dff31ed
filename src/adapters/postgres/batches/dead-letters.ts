/** Dead letters in SQL: finding, editing and discarding them. */
import { describeAct } from "../../../core/batch/batch.ts";
import { type DeadLetterFilter, matchesDeadLetter } from "../../../core/items/redrive.ts";
import type { DiscardRequest, EditRequest } from "../../../ports/store/operator-store.ts";
import type { DeadLetter, DeadLetterPage } from "../../../ports/store/query-store.ts";
import { type DeadLetterRow, toDeadLetter } from "../../sql/dead-letters.ts";
import type { BatchRow } from "../../sql/rows.ts";
import type { RecordLog } from "../ledger/records.ts";
import { statement } from "../connection/statement.ts";
import type { Steps } from "./steps.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_LETTERS = `
  SELECT i.step, i.item, i.key, i.attempts, i.deaths, i.error_class, i.code, i.message,
    i.failed_at, i.drive, i.discarded_by, i.discarded_why,
    EXISTS (SELECT 1 FROM override o
      WHERE o.batch = i.batch AND o.step = i.step AND o.item = i.item)::int AS edited
  FROM item i WHERE i.dead = 1 AND i.batch = $1 AND i.step = $2`;

const PAGE = 1_000;

const SELECT = statement(`${SELECT_LETTERS} AND i.item > $3 ORDER BY i.item LIMIT $4`);
const FIND = statement(`${SELECT_LETTERS} AND i.item = $3`);
const DISCARD = statement(
  `UPDATE item SET discarded_by = $4, discarded_why = $5
   WHERE batch = $1 AND step = $2 AND item = ANY($3::bigint[])`,
);
const PUT_OVERRIDE = statement(
  `INSERT INTO override (batch, step, item, value) VALUES ($1, $2, $3, $4)
   ON CONFLICT (batch, step, item) DO UPDATE SET value = excluded.value`,
);
const MARK_EDITED = statement(
  "UPDATE chunk SET edited = 1 WHERE batch = $1 AND step = $2 AND chunk = $3",
);
const DROP_CHECKPOINT = statement(
  `UPDATE item SET checkpoint_name = NULL, checkpoint_data = NULL
   WHERE batch = $1 AND step = $2 AND item = $3`,
);

export class DeadLetters {
  readonly #records: RecordLog;
  readonly #steps: Steps;

  constructor(records: RecordLog, steps: Steps) {
    this.#records = records;
    this.#steps = steps;
  }

  /** In item order; read a page at a time, so that a filter costs no memory. */
  async *#list(
    tx: Transaction,
    num: number,
    { step, afterItem, limit, filter }: DeadLetterPage,
  ): AsyncGenerator<DeadLetter, void, void> {
    let after = afterItem;
    for (let size = Math.min(limit, PAGE); ; size = PAGE) {
      const rows = await tx.all<DeadLetterRow>(SELECT, num, step, after, size);
      for (const row of rows) {
        const letter = toDeadLetter(row);
        if (matchesDeadLetter(filter, letter)) yield letter;
        after = row.item;
      }
      if (rows.length < size) return;
    }
  }

  async read(tx: Transaction, num: number, page: DeadLetterPage): Promise<DeadLetter[]> {
    const letters: DeadLetter[] = [];
    if (page.limit <= 0) return letters;
    for await (const letter of this.#list(tx, num, page)) {
      letters.push(letter);
      if (letters.length >= page.limit) break;
    }
    return letters;
  }

  /**
   * All that match, in item order, a page at a time: the caller may change the ones that it has
   * seen.
   */
  async *walkPages(
    tx: Transaction,
    num: number,
    step: number,
    filter: DeadLetterFilter,
  ): AsyncGenerator<readonly DeadLetter[], void, void> {
    for (let afterItem = -1; ; ) {
      const page = await this.read(tx, num, { step, afterItem, limit: PAGE, filter });
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      afterItem = last.item;
    }
  }

  async *walk(
    tx: Transaction,
    num: number,
    step: number,
    filter: DeadLetterFilter,
  ): AsyncGenerator<DeadLetter, void, void> {
    for await (const page of this.walkPages(tx, num, step, filter)) yield* page;
  }

  async find(tx: Transaction, num: number, step: number, item: number): Promise<DeadLetter | null> {
    const row = await tx.get<DeadLetterRow>(FIND, num, step, item);
    return row === undefined ? null : toDeadLetter(row);
  }

  async edit(
    tx: Transaction,
    batch: BatchRow,
    { step, item, value, by, why }: EditRequest,
  ): Promise<boolean> {
    const { num } = batch;
    const [chunk, letter] = await Promise.all([
      this.#steps.findChunk(tx, num, step, item),
      this.find(tx, num, step, item),
    ]);
    if (chunk === null || batch.pruned === 1 || letter === null) return false;
    tx.send(PUT_OVERRIDE, num, step, item, value);
    tx.send(MARK_EDITED, num, step, chunk);
    // Checkpoints of the old payload say nothing about the new one.
    tx.send(DROP_CHECKPOINT, num, step, item);
    await this.#records.record(tx, num, {
      type: "dead_letter.edited",
      data: { step, item, ...describeAct({ by, why }) },
    });
    return true;
  }

  async discard(
    tx: Transaction,
    { num }: BatchRow,
    steps: number,
    { filter, by, why }: DiscardRequest,
  ): Promise<number> {
    let discarded = 0;
    for (let step = 0; step < steps; step++) {
      for await (const page of this.walkPages(tx, num, step, filter)) {
        const items = page.filter((letter) => letter.discarded === null).map(({ item }) => item);
        if (items.length > 0) tx.send(DISCARD, num, step, items, by, why);
        discarded += items.length;
      }
    }
    if (discarded > 0) {
      await this.#records.record(tx, num, {
        type: "dead_letters.discarded",
        data: { items: discarded, ...describeAct({ by, why }) },
      });
    }
    return discarded;
  }
}
