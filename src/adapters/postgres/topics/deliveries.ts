/** Durable readers and undelivered events in SQL. */
import { readGroupName } from "../../../core/events/reader-name.ts";
import type {
  NewUndelivered,
  ReaderStart,
  UndeliveredEvent,
  UndeliveredPage,
} from "../../../ports/store/delivery-store.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

type UndeliveredRow = Omit<UndeliveredEvent, "givenUpAt"> & { readonly given_up_at: number };

interface PositionRow {
  readonly position: number;
}

const START_READER = statement(
  `INSERT INTO reader (name, topic, position) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`,
);
const SELECT_LAST_RECORD = statement("SELECT coalesce(max(position), 0) AS position FROM record");
const SELECT_LAST_MESSAGE = statement(
  "SELECT coalesce(max(position), 0) AS position FROM message WHERE topic = $1",
);
const REWIND = statement("UPDATE reader SET position = least(position, $1) WHERE name = $2");
const SELECT_POSITION = statement("SELECT position FROM reader WHERE name = $1");
const LOCK_POSITION = statement("SELECT position FROM reader WHERE name = $1 FOR NO KEY UPDATE");
const PUT_POSITION = statement(
  `INSERT INTO reader (name, topic, position) VALUES ($1, $2, $3)
   ON CONFLICT (name) DO UPDATE SET position = greatest(reader.position, excluded.position)`,
);
// Two statements: an upsert would use up an id even if the row exists.
const UPDATE_LETTER = statement(
  `UPDATE undelivered SET event = $1, batch = $2, type = $3, attempts = $4, code = $5,
     message = $6, given_up_at = $7 WHERE reader = $8 AND position = $9`,
);
const INSERT_LETTER = statement(
  `INSERT INTO undelivered
     (event, batch, type, attempts, code, message, given_up_at, reader, position)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
);
const LETTERS = `SELECT id, reader, position, event, batch, type, attempts, code, message,
     given_up_at FROM undelivered`;
const SELECT_LETTERS = statement(`${LETTERS} WHERE id > $1 ORDER BY id LIMIT $2`);
const SELECT_LETTERS_OF = statement(
  `${LETTERS} WHERE reader = $1 AND id > $2 ORDER BY id LIMIT $3`,
);
const DELETE_LETTER = statement("DELETE FROM undelivered WHERE id = $1");
const DELETE_LETTERS_OF = statement("DELETE FROM undelivered WHERE reader = $1");
const DELETE_READER = statement("DELETE FROM reader WHERE name = $1");

/** Records and messages get their positions before a reader is started: see positions.ts. */
export class Deliveries {
  async startReader(tx: Transaction, reader: string, start: ReaderStart): Promise<number> {
    const topic = readGroupName(reader)?.topic ?? null;
    tx.send(START_READER, reader, topic, await this.#findStart(tx, topic, start));
    return this.readPosition(tx, reader);
  }

  async #findStart(tx: Transaction, topic: string | null, start: ReaderStart): Promise<number> {
    if (start === "beginning") return 0;
    if (start !== "now") return start;
    const row =
      topic === null
        ? await tx.get<PositionRow>(SELECT_LAST_RECORD)
        : await tx.get<PositionRow>(SELECT_LAST_MESSAGE, topic);
    return row?.position ?? 0;
  }

  async readPosition(tx: Transaction, reader: string): Promise<number> {
    return (await tx.get<PositionRow>(SELECT_POSITION, reader))?.position ?? 0;
  }

  async savePosition(
    tx: Transaction,
    reader: string,
    position: number,
    from = 0,
  ): Promise<boolean> {
    const row = from > 0 ? await tx.get<PositionRow>(LOCK_POSITION, reader) : undefined;
    if (row !== undefined && row.position < from) return false;
    tx.send(PUT_POSITION, reader, readGroupName(reader)?.topic ?? null, position);
    return true;
  }

  async rewindReader(tx: Transaction, reader: string, position: number): Promise<boolean> {
    return (await tx.run(REWIND, position, reader)) > 0;
  }

  async keepUndelivered(
    tx: Transaction,
    undelivered: NewUndelivered,
    from?: number,
  ): Promise<void> {
    const { reader, position, event, batch, type, attempts, code, message } = undelivered;
    await tx.begin();
    const now = tx.wallMs;
    const values = [event, batch, type, attempts, code, message, now, reader, position];
    // If two transactions store it at once, the later one starts again, and finds the row.
    if ((await tx.run(UPDATE_LETTER, ...values)) === 0) tx.send(INSERT_LETTER, ...values);
    await this.savePosition(tx, reader, position, from);
  }

  async listUndelivered(
    tx: Transaction,
    { reader, afterId, limit }: UndeliveredPage,
  ): Promise<UndeliveredEvent[]> {
    const rows =
      reader === undefined
        ? await tx.all<UndeliveredRow>(SELECT_LETTERS, afterId, limit)
        : await tx.all<UndeliveredRow>(SELECT_LETTERS_OF, reader, afterId, limit);
    return rows.map(({ given_up_at: givenUpAt, ...undelivered }) => ({
      ...undelivered,
      givenUpAt,
    }));
  }

  async dropUndelivered(tx: Transaction, id: number): Promise<void> {
    await tx.run(DELETE_LETTER, id);
  }

  async forgetReader(tx: Transaction, reader: string): Promise<boolean> {
    tx.send(DELETE_LETTERS_OF, reader);
    return (await tx.run(DELETE_READER, reader)) > 0;
  }
}
