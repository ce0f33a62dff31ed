/** Durable readers and undelivered events in SQL. */
import type { StatementSync } from "node:sqlite";
import { readGroupName } from "../../../core/events/reader-name.ts";
import type { Clock } from "../../../ports/clock.ts";
import type {
  UndeliveredPage,
  NewUndelivered,
  ReaderStart,
  UndeliveredEvent,
} from "../../../ports/store/delivery-store.ts";
import type { Connection } from "../connection/connection.ts";

type UndeliveredRow = Omit<UndeliveredEvent, "givenUpAt"> & { readonly given_up_at: number };

interface PositionRow {
  readonly position: number;
}

export class Deliveries {
  readonly #clock: Clock;
  readonly #startReader: StatementSync;
  readonly #selectLastRecord: StatementSync;
  readonly #selectLastMessage: StatementSync;
  readonly #rewind: StatementSync;
  readonly #selectPosition: StatementSync;
  readonly #putPosition: StatementSync;
  readonly #updateLetter: StatementSync;
  readonly #insertLetter: StatementSync;
  readonly #selectUndelivered: StatementSync;
  readonly #selectUndeliveredOf: StatementSync;
  readonly #deleteLetter: StatementSync;
  readonly #deleteLettersOf: StatementSync;
  readonly #deleteReader: StatementSync;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#startReader = prepare(
      "INSERT INTO reader (name, topic, position) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
    );
    this.#selectLastRecord = prepare("SELECT coalesce(max(position), 0) AS position FROM record");
    this.#selectLastMessage = prepare(
      "SELECT coalesce(max(position), 0) AS position FROM message WHERE topic = ?",
    );
    this.#rewind = prepare("UPDATE reader SET position = min(position, ?) WHERE name = ?");
    this.#selectPosition = prepare("SELECT position FROM reader WHERE name = ?");
    this.#putPosition = prepare(
      `INSERT INTO reader (name, topic, position) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)`,
    );
    // Two statements: an upsert would use up an id even if the row exists.
    this.#updateLetter = prepare(
      `UPDATE undelivered SET event = ?, batch = ?, type = ?, attempts = ?, code = ?, message = ?,
         given_up_at = ? WHERE reader = ? AND position = ?`,
    );
    this.#insertLetter = prepare(
      `INSERT INTO undelivered
         (event, batch, type, attempts, code, message, given_up_at, reader, position)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    const undelivered = `SELECT id, reader, position, event, batch, type, attempts, code, message,
         given_up_at FROM undelivered`;
    this.#selectUndelivered = prepare(`${undelivered} WHERE id > ? ORDER BY id LIMIT ?`);
    this.#selectUndeliveredOf = prepare(
      `${undelivered} WHERE reader = ? AND id > ? ORDER BY id LIMIT ?`,
    );
    this.#deleteLetter = prepare("DELETE FROM undelivered WHERE id = ?");
    this.#deleteLettersOf = prepare("DELETE FROM undelivered WHERE reader = ?");
    this.#deleteReader = prepare("DELETE FROM reader WHERE name = ?");
  }

  startReader(reader: string, start: ReaderStart): number {
    const topic = readGroupName(reader)?.topic ?? null;
    this.#startReader.run(reader, topic, this.#findStart(topic, start));
    return this.readPosition(reader);
  }

  #findStart(topic: string | null, start: ReaderStart): number {
    if (start === "beginning") return 0;
    if (start !== "now") return start;
    const row = topic === null ? this.#selectLastRecord.get() : this.#selectLastMessage.get(topic);
    return (row as unknown as PositionRow).position;
  }

  readPosition(reader: string): number {
    const row = this.#selectPosition.get(reader) as PositionRow | undefined;
    return row?.position ?? 0;
  }

  savePosition(reader: string, position: number, from = 0): boolean {
    const row =
      from > 0 ? (this.#selectPosition.get(reader) as PositionRow | undefined) : undefined;
    if (row !== undefined && row.position < from) return false;
    this.#putPosition.run(reader, readGroupName(reader)?.topic ?? null, position);
    return true;
  }

  rewindReader(reader: string, position: number): boolean {
    return this.#rewind.run(position, reader).changes > 0;
  }

  keepUndelivered(undelivered: NewUndelivered, from?: number): void {
    const { reader, position, event, batch, type, attempts, code, message } = undelivered;
    const now = this.#clock.wallMs();
    const values = [event, batch, type, attempts, code, message, now, reader, position];
    if (this.#updateLetter.run(...values).changes === 0) this.#insertLetter.run(...values);
    this.savePosition(reader, position, from);
  }

  listUndelivered({ reader, afterId, limit }: UndeliveredPage): UndeliveredEvent[] {
    const rows =
      reader === undefined
        ? this.#selectUndelivered.all(afterId, limit)
        : this.#selectUndeliveredOf.all(reader, afterId, limit);
    return (rows as unknown as UndeliveredRow[]).map(
      ({ given_up_at: givenUpAt, ...undelivered }) => ({
        ...undelivered,
        givenUpAt,
      }),
    );
  }

  dropUndelivered(id: number): void {
    this.#deleteLetter.run(id);
  }

  forgetReader(reader: string): boolean {
    this.#deleteLettersOf.run(reader);
    return this.#deleteReader.run(reader).changes > 0;
  }
}
