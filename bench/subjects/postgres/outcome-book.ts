/**
 * How a user of a job queue would record a batch beside it: a row for each item's outcome and a
 * counter of the rest, which shows the end. One statement writes both, for any number of items. The
 * key of the outcome makes a repeated job harmless.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import pg from "pg";

const CREATE = `CREATE TABLE outcome (item bigint PRIMARY KEY, outcome smallint NOT NULL);
  CREATE TABLE batch (id int PRIMARY KEY, todo bigint NOT NULL) WITH (fillfactor = 10)`;
const BEGIN_BATCH = "INSERT INTO batch (id, todo) VALUES (1, $1)";
export const RECORD_ITEMS = `WITH recorded AS (
    INSERT INTO outcome (item, outcome) SELECT unnest($1::bigint[]), 1
    ON CONFLICT (item) DO NOTHING RETURNING 1)
  UPDATE batch SET todo = todo - (SELECT count(*) FROM recorded) WHERE id = 1`;
export const COUNT_DOWN = "UPDATE batch SET todo = todo - $1 WHERE id = 1";
const READ_TODO = "SELECT todo::float8 AS todo FROM batch WHERE id = 1";
const COUNT_OUTCOMES = "SELECT count(*)::float8 AS outcomes FROM outcome";

const LOOK_EVERY_MS = 5;

export class OutcomeBook {
  readonly #pool: pg.Pool;

  constructor(server: string, connectionsMax: number) {
    this.#pool = new pg.Pool({ connectionString: server, max: connectionsMax });
  }

  async create(items: number): Promise<void> {
    await this.#pool.query(CREATE);
    await this.#pool.query(BEGIN_BATCH, [items]);
  }

  async recordItems(items: readonly number[]): Promise<void> {
    await this.#pool.query({ name: "record", text: RECORD_ITEMS, values: [items] });
  }

  async countDown(items: number): Promise<void> {
    await this.#pool.query({ name: "count", text: COUNT_DOWN, values: [items] });
  }

  async waitForEnd(signal: AbortSignal): Promise<void> {
    for (;;) {
      const { rows } = await this.#pool.query<{ todo: number }>(READ_TODO);
      if (rows[0]?.todo === 0) return;
      signal.throwIfAborted();
      await setTimeout(LOOK_EVERY_MS);
    }
  }

  async countOutcomes(): Promise<number> {
    return this.count(COUNT_OUTCOMES);
  }

  /** The one number that a query returns. */
  async count(text: string): Promise<number> {
    const { rows } = await this.#pool.query<Record<string, number>>(text);
    return Number(Object.values(rows[0] ?? {})[0]);
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/**
 * Everything that arrives while a statement runs shares the next one, as a user with hundreds of
 * tiny jobs at once would do it. Each call returns when its own part is committed.
 */
export class SharedWrites<Part> {
  readonly #write: (parts: readonly Part[]) => Promise<void>;
  #waiting: { readonly part: Part; readonly done: PromiseWithResolvers<void> }[] = [];
  #isWriting = false;

  constructor(write: (parts: readonly Part[]) => Promise<void>) {
    this.#write = write;
  }

  add(part: Part): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ part, done });
    if (!this.#isWriting) void this.#writeAll();
    return done.promise;
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    // So that jobs that begin in the same turn of the loop share a statement.
    await setImmediate();
    while (this.#waiting.length > 0) {
      const taken = this.#waiting;
      this.#waiting = [];
      try {
        await this.#write(taken.map(({ part }) => part));
        for (const { done } of taken) done.resolve();
      } catch (error) {
        for (const { done } of taken) done.reject(error);
      }
    }
    this.#isWriting = false;
  }
}
