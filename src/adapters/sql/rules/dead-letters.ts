/** Finding, editing and discarding dead letters. */
import { describeAct } from "../../../core/batch/batch.ts";
import { type DeadLetterFilter, matchesDeadLetter } from "../../../core/items/redrive.ts";
import type { DiscardRequest, EditRequest } from "../../../ports/store/operator-store.ts";
import type { DeadLetter, DeadLetterPage } from "../../../ports/store/query-store.ts";
import { type DeadLetterRow, toDeadLetter } from "../dead-letters.ts";
import type { BatchRow } from "../rows.ts";
import { type Act, together } from "../dialect/act.ts";
import type { RecordLog } from "./records.ts";
import { statement } from "../dialect/statement.ts";
import type { Steps } from "./steps.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

const SELECT_LETTERS = `
  SELECT i.step, i.item, i.key, i.attempts, i.deaths, i.error_class, i.code, i.message,
    i.failed_at, i.drive, i.discarded_by, i.discarded_why,
    CASE WHEN EXISTS (SELECT 1 FROM override o
      WHERE o.batch = i.batch AND o.step = i.step AND o.item = i.item) THEN 1 ELSE 0 END AS edited
  FROM item i /*sqlite INDEXED BY item_dead*/ WHERE i.dead = 1 AND i.batch = $1 AND i.step = $2`;

const PAGE = 1_000;

const SELECT = statement(`${SELECT_LETTERS} AND i.item > $3 ORDER BY i.item LIMIT $4`);
const FIND = statement(`${SELECT_LETTERS} AND i.item = $3`);
const DISCARD = statement(
  `UPDATE item SET discarded_by = $3, discarded_why = $4
   WHERE batch = $1 AND step = $2 AND item /*sqlite = $5*//*postgres = ANY($5::bigint[])*/`,
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

  /** In item order; reads a page at a time, so that a filter costs no memory. */
  *read(
    tx: RuleTransaction,
    num: number,
    { step, afterItem, limit, filter }: DeadLetterPage,
  ): Act<DeadLetter[]> {
    const letters: DeadLetter[] = [];
    if (limit <= 0) return letters;
    let after = afterItem;
    for (let size = Math.min(limit, PAGE); ; size = PAGE) {
      const rows = yield* tx.all<DeadLetterRow>(SELECT, num, step, after, size);
      for (const row of rows) {
        const letter = toDeadLetter(row);
        after = row.item;
        if (!matchesDeadLetter(filter, letter)) continue;
        letters.push(letter);
        if (letters.length >= limit) return letters;
      }
      if (rows.length < size) return letters;
    }
  }

  /** The next matches, in item order; empty after the last. */
  readPage(
    tx: RuleTransaction,
    num: number,
    step: number,
    filter: DeadLetterFilter,
    afterItem: number,
  ): Act<DeadLetter[]> {
    return this.read(tx, num, { step, afterItem, limit: PAGE, filter });
  }

  *find(tx: RuleTransaction, num: number, step: number, item: number): Act<DeadLetter | null> {
    const row = yield* tx.get<DeadLetterRow>(FIND, num, step, item);
    return row === undefined ? null : toDeadLetter(row);
  }

  *edit(
    tx: RuleTransaction,
    batch: BatchRow,
    { step, item, value, by, why }: EditRequest,
  ): Act<boolean> {
    const { num } = batch;
    const [chunk, letter] = yield* together(
      this.#steps.findChunk(tx, num, step, item),
      this.find(tx, num, step, item),
    );
    if (chunk === null || batch.pruned === 1 || letter === null) return false;
    tx.send(PUT_OVERRIDE, num, step, item, value);
    tx.send(MARK_EDITED, num, step, chunk);
    // Checkpoints of the old payload say nothing about the new one.
    tx.send(DROP_CHECKPOINT, num, step, item);
    yield* this.#records.record(tx, num, {
      type: "dead_letter.edited",
      data: { step, item, ...describeAct({ by, why }) },
    });
    return true;
  }

  *discard(
    tx: RuleTransaction,
    { num }: BatchRow,
    steps: number,
    { filter, by, why }: DiscardRequest,
  ): Act<number> {
    let discarded = 0;
    for (let step = 0; step < steps; step++) {
      for (let after = -1; ; ) {
        const page = yield* this.readPage(tx, num, step, filter, after);
        const last = page.at(-1);
        if (last === undefined) break;
        const items = page.filter((letter) => letter.discarded === null).map(({ item }) => item);
        tx.sendEach(DISCARD, [num, step, by, why], items);
        discarded += items.length;
        after = last.item;
      }
    }
    if (discarded > 0) {
      yield* this.#records.record(tx, num, {
        type: "dead_letters.discarded",
        data: { items: discarded, ...describeAct({ by, why }) },
      });
    }
    return discarded;
  }
}
