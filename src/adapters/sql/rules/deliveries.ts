/** Durable readers and undelivered events. */
import { readGroupName } from "../../../core/events/reader-name.ts";
import type {
  NewUndelivered,
  ReaderStart,
  UndeliveredEvent,
  UndeliveredPage,
} from "../../../ports/store/delivery-store.ts";
import { type Act, answered } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

type UndeliveredRow = Omit<UndeliveredEvent, "givenUpAt"> & { readonly given_up_at: number };

interface PositionRow {
  readonly position: number;
}

const START_READER = statement(
  "INSERT INTO reader (name, topic, position) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
);
const FIND_LAST_RECORD = statement("SELECT coalesce(max(position), 0) AS position FROM record");
const FIND_LAST_MESSAGE = statement(
  "SELECT coalesce(max(position), 0) AS position FROM message WHERE topic = $1",
);
const REWIND = statement(
  `UPDATE reader SET position = /*sqlite min*//*postgres least*/(position, $2) WHERE name = $1`,
);
const FIND_POSITION = statement("SELECT position FROM reader WHERE name = $1");
const LOCK_POSITION = statement(
  "SELECT position FROM reader WHERE name = $1 /*postgres FOR NO KEY UPDATE*/",
);
const PUT_POSITION = statement(
  `INSERT INTO reader (name, topic, position) VALUES ($1, $2, $3)
   ON CONFLICT (name) DO UPDATE
   SET position = /*sqlite max*//*postgres greatest*/(reader.position, excluded.position)`,
);
// Two statements: an upsert would use up an id even if the row exists.
const UPDATE_UNDELIVERED = statement(
  `UPDATE undelivered SET event = $1, batch = $2, type = $3, attempts = $4, code = $5,
     message = $6, given_up_at = $7 WHERE reader = $8 AND position = $9`,
);
const INSERT_UNDELIVERED = statement(
  `INSERT INTO undelivered
     (event, batch, type, attempts, code, message, given_up_at, reader, position)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
);
const UNDELIVERED = `SELECT id, reader, position, event, batch, type, attempts, code, message,
     given_up_at FROM undelivered`;
const SELECT_UNDELIVERED = statement(`${UNDELIVERED} WHERE id > $1 ORDER BY id LIMIT $2`);
const SELECT_UNDELIVERED_OF = statement(
  `${UNDELIVERED} WHERE reader = $1 AND id > $2 ORDER BY id LIMIT $3`,
);
const DROP_UNDELIVERED = statement("DELETE FROM undelivered WHERE id = $1");
const DROP_UNDELIVERED_OF = statement("DELETE FROM undelivered WHERE reader = $1");
const DROP_READER = statement("DELETE FROM reader WHERE name = $1");

/** On a server, records and messages get their positions before a reader is started. */
export class Deliveries {
  *startReader(tx: RuleTransaction, reader: string, start: ReaderStart): Act<number> {
    const topic = readGroupName(reader)?.topic ?? null;
    tx.send(START_READER, reader, topic, yield* this.#findStart(tx, topic, start));
    return yield* this.readPosition(tx, reader);
  }

  *#findStart(tx: RuleTransaction, topic: string | null, start: ReaderStart): Act<number> {
    if (start === "beginning") return 0;
    if (start !== "now") return start;
    const row =
      topic === null
        ? yield* tx.get<PositionRow>(FIND_LAST_RECORD)
        : yield* tx.get<PositionRow>(FIND_LAST_MESSAGE, topic);
    return row?.position ?? 0;
  }

  *readPosition(tx: RuleTransaction, reader: string): Act<number> {
    return (yield* tx.get<PositionRow>(FIND_POSITION, reader))?.position ?? 0;
  }

  *savePosition(tx: RuleTransaction, reader: string, position: number, from = 0): Act<boolean> {
    const row = from > 0 ? yield* tx.get<PositionRow>(LOCK_POSITION, reader) : undefined;
    if (row !== undefined && row.position < from) return false;
    tx.send(PUT_POSITION, reader, readGroupName(reader)?.topic ?? null, position);
    return true;
  }

  *rewindReader(tx: RuleTransaction, reader: string, position: number): Act<boolean> {
    return (yield* tx.run(REWIND, reader, position)) > 0;
  }

  *keepUndelivered(tx: RuleTransaction, undelivered: NewUndelivered, from?: number): Act<void> {
    const { reader, position, event, batch, type, attempts, code, message } = undelivered;
    yield* tx.begin();
    const values = [event, batch, type, attempts, code, message, tx.wallMs, reader, position];
    // If two transactions store it at once, the later one starts again, and finds the row.
    const known = yield* tx.run(UPDATE_UNDELIVERED, ...values);
    if (known === 0) tx.send(INSERT_UNDELIVERED, ...values);
    yield* this.savePosition(tx, reader, position, from);
  }

  *listUndelivered(
    tx: RuleTransaction,
    { reader, afterId, limit }: UndeliveredPage,
  ): Act<UndeliveredEvent[]> {
    const rows =
      reader === undefined
        ? yield* tx.all<UndeliveredRow>(SELECT_UNDELIVERED, afterId, limit)
        : yield* tx.all<UndeliveredRow>(SELECT_UNDELIVERED_OF, reader, afterId, limit);
    return rows.map(({ given_up_at: givenUpAt, ...undelivered }) => ({
      ...undelivered,
      givenUpAt,
    }));
  }

  dropUndelivered(tx: RuleTransaction, id: number): Act<void> {
    tx.send(DROP_UNDELIVERED, id);
    return answered(undefined);
  }

  *forgetReader(tx: RuleTransaction, reader: string): Act<boolean> {
    tx.send(DROP_UNDELIVERED_OF, reader);
    return (yield* tx.run(DROP_READER, reader)) > 0;
  }
}
