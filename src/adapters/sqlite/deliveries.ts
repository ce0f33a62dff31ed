/** Durable readers and undelivered letters in SQL. */
import type { StatementSync } from "node:sqlite";
import type { Clock } from "../../ports/clock.ts";
import type {
  UndeliveredPage,
  NewLetter,
  ReaderStart,
  UndeliveredLetter,
} from "../../ports/delivering.ts";
import type { Connection } from "./connection.ts";

type LetterRow = Omit<UndeliveredLetter, "givenUpAt"> & { readonly given_up_at: number };

export class Deliveries {
  readonly #clock: Clock;
  readonly #startReader: StatementSync;
  readonly #selectPosition: StatementSync;
  readonly #putPosition: StatementSync;
  readonly #updateLetter: StatementSync;
  readonly #insertLetter: StatementSync;
  readonly #selectLetters: StatementSync;
  readonly #selectLettersOf: StatementSync;
  readonly #deleteLetter: StatementSync;
  readonly #deleteLettersOf: StatementSync;
  readonly #deleteReader: StatementSync;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#startReader = prepare(
      `INSERT INTO reader (name, position)
       VALUES (?, CASE WHEN ? = 'now' THEN (SELECT coalesce(max(position), 0) FROM record) ELSE 0 END)
       ON CONFLICT (name) DO NOTHING`,
    );
    this.#selectPosition = prepare("SELECT position FROM reader WHERE name = ?");
    this.#putPosition = prepare(
      `INSERT INTO reader (name, position) VALUES (?, ?)
       ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)`,
    );
    // Two statements: an upsert would spend an id also where the letter is known.
    this.#updateLetter = prepare(
      `UPDATE undelivered SET event = ?, batch = ?, type = ?, attempts = ?, code = ?, message = ?,
         given_up_at = ? WHERE reader = ? AND position = ?`,
    );
    this.#insertLetter = prepare(
      `INSERT INTO undelivered
         (event, batch, type, attempts, code, message, given_up_at, reader, position)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    const letters = `SELECT id, reader, position, event, batch, type, attempts, code, message,
         given_up_at FROM undelivered`;
    this.#selectLetters = prepare(`${letters} WHERE id > ? ORDER BY id LIMIT ?`);
    this.#selectLettersOf = prepare(`${letters} WHERE reader = ? AND id > ? ORDER BY id LIMIT ?`);
    this.#deleteLetter = prepare("DELETE FROM undelivered WHERE id = ?");
    this.#deleteLettersOf = prepare("DELETE FROM undelivered WHERE reader = ?");
    this.#deleteReader = prepare("DELETE FROM reader WHERE name = ?");
  }

  startReader(reader: string, start: ReaderStart): number {
    this.#startReader.run(reader, start);
    return this.readPosition(reader);
  }

  readPosition(reader: string): number {
    const row = this.#selectPosition.get(reader) as { position: number } | undefined;
    return row?.position ?? 0;
  }

  savePosition(reader: string, position: number): void {
    this.#putPosition.run(reader, position);
  }

  keepUndelivered(letter: NewLetter): void {
    const { reader, position, event, batch, type, attempts, code, message } = letter;
    const now = this.#clock.wallMs();
    const values = [event, batch, type, attempts, code, message, now, reader, position];
    if (this.#updateLetter.run(...values).changes === 0) this.#insertLetter.run(...values);
    this.savePosition(reader, position);
  }

  listUndelivered({ reader, afterId, limit }: UndeliveredPage): UndeliveredLetter[] {
    const rows =
      reader === undefined
        ? this.#selectLetters.all(afterId, limit)
        : this.#selectLettersOf.all(reader, afterId, limit);
    return (rows as unknown as LetterRow[]).map(({ given_up_at: givenUpAt, ...letter }) => ({
      ...letter,
      givenUpAt,
    }));
  }

  dropUndelivered(id: number): void {
    this.#deleteLetter.run(id);
  }

  forgetReader(reader: string): boolean {
    this.#deleteLettersOf.run(reader);
    return this.#deleteReader.run(reader).changes > 0;
  }
}
