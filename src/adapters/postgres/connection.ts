/**
 * Connections to a PostgreSQL server, and transactions on them. What met others at the same rows is
 * done again; what broke off before its COMMIT was sent surely did not happen; and of what broke off
 * after it the server is asked whether it did, by the transaction's id. Nobody guesses.
 */
import pg from "pg";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { SluiceError } from "../../core/errors.ts";
import type { Address } from "./address.ts";
import { isBroken, isContention, translateError } from "./errors.ts";
import { decodeText } from "./statement.ts";
import { type Instant, type Line, Transaction } from "./transaction.ts";

export interface ConnectionOptions {
  readonly address: Address;
  /** How long a change is tried again while others are at the same rows. */
  readonly busyMs: number;
  readonly connectionsMax: number;
  readonly clock: Clock;
  readonly random: Random;
  /** For tests: the store's time, in place of the server's. */
  readonly time: Pick<Clock, "monotonicMs" | "wallMs"> | null;
}

const CONNECT_MS = 5_000;
/** A statement that is not answered by then never will be: the way is broken. */
export const ANSWER_MS = 30_000;
/**
 * How long somebody may be silent in the middle of a transaction: a process that was stopped or cut
 * off must not keep its locks from the others.
 */
const SILENT_MS = 5_000;
/** How long a lock is waited for: more than that says that something is wrong. */
const LOCK_MS = 10_000;
const RETRY_MIN_MS = 1;
const RETRY_MAX_MS = 50;
/** How long the fate of a broken COMMIT is asked for, and how often. */
const FATE_MS = 15_000;
const FATE_EVERY_MS = 100;

const INT8 = 20;
const NUMERIC = 1700;
const BYTEA = 17;
const BYTEA_PREFIX = "\\x";
const TEXTS = [25, 1043];

const { types } = pg;
type Parse = (text: string) => unknown;
const PARSERS = new Map<number, Parse>([
  [INT8, Number],
  [NUMERIC, Number],
  [BYTEA, readBytes],
  ...TEXTS.map((type): [number, Parse] => [type, decodeText]),
]);

/** Begun transactions know their time and, when they write, their id. */
function composeBegin(schema: string, writes: boolean): pg.QueryConfig {
  const id = writes ? "pg_current_xact_id()::text" : "NULL";
  return {
    name: writes ? "sluice_begin" : "sluice_begin_look",
    text: `SELECT set_config('search_path', $1, true),
      set_config('idle_in_transaction_session_timeout', '${SILENT_MS}', true),
      set_config('lock_timeout', '${LOCK_MS}', true), ${id} AS id,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
    values: [`${pg.escapeIdentifier(schema)}, pg_catalog`],
  };
}

export class Connection {
  readonly name: string;
  readonly schema: string;
  readonly #pool: pg.Pool;
  readonly #options: ConnectionOptions;
  readonly #begin: { readonly write: pg.QueryConfig; readonly read: pg.QueryConfig };
  readonly #onCommit = new Set<() => void>();
  #closed = false;

  constructor(options: ConnectionOptions) {
    const { address } = options;
    this.#options = options;
    this.name = address.name;
    this.schema = address.schema;
    this.#begin = {
      write: composeBegin(address.schema, true),
      read: composeBegin(address.schema, false),
    };
    this.#pool = new pg.Pool({
      ...composeConfig(address),
      max: options.connectionsMax,
      query_timeout: ANSWER_MS,
      pipeline: true,
    });
    // An idle connection that breaks is replaced when the next one is asked for.
    this.#pool.on("error", ignore);
    // One that breaks while it is in use says so to its queries; unheard, it would end the process.
    this.#pool.on("connect", (client) => client.on("error", ignore));
  }

  /** One question outside of any transaction. */
  async ask<Row extends pg.QueryResultRow>(
    text: string,
    values: unknown[],
  ): Promise<pg.QueryResult<Row>> {
    try {
      const client = await this.#connect();
      try {
        return await client.query<Row>(text, values);
      } finally {
        client.release();
      }
    } catch (error) {
      throw this.#translate(error);
    }
  }

  /** A transaction on a plain connection, which is closed after it: for changes of the schema. */
  async alone(change: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = this.createClient();
    try {
      await client.connect();
      await client.query("BEGIN");
      await change(client);
      await client.query("COMMIT");
    } catch (error) {
      throw this.#translate(error);
    } finally {
      await client.end().catch(ignore);
    }
  }

  /** A connection of one's own, for notifications. */
  createClient(): pg.Client {
    return createClient(this.#options.address);
  }

  /** Runs a change in one transaction; it is done again whole while others are in its way. */
  async write<T>(change: (transaction: Transaction) => Promise<T>): Promise<T> {
    const { clock, random, busyMs } = this.#options;
    const giveUpAt = clock.monotonicMs() + busyMs;
    for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      try {
        return await this.#writeOnce(change);
      } catch (error) {
        if (!isContention(error) || clock.monotonicMs() >= giveUpAt) throw this.#translate(error);
      }
      await sleep(clock, RETRY_MIN_MS + waitMs * random.next());
    }
  }

  async #writeOnce<T>(change: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let failed: unknown = null;
    try {
      const transaction = this.#open(client, "BEGIN", this.#begin.write);
      const result = await this.#settle(client, transaction, change);
      if (transaction.tells) for (const listener of this.#onCommit) listener();
      return result;
    } catch (error) {
      failed = error;
      throw error;
    } finally {
      client.release(failed !== null && isBroken(failed) ? true : undefined);
    }
  }

  async #settle<T>(
    client: pg.PoolClient,
    transaction: Transaction,
    change: (transaction: Transaction) => Promise<T>,
  ): Promise<T> {
    let result: T;
    try {
      result = await change(transaction);
      await transaction.begin();
    } catch (error) {
      if (!isBroken(error)) await client.query("ROLLBACK").catch(ignore);
      throw error;
    }
    try {
      await transaction.commit();
    } catch (error) {
      if (!isBroken(error) || !(await this.#wasCommitted(transaction.id))) throw error;
    }
    return result;
  }

  /**
   * Whether a transaction whose COMMIT was not answered has been committed. The server may not have
   * noticed yet that its client is gone, so it is asked until it knows.
   */
  async #wasCommitted(id: string | null): Promise<boolean> {
    const { clock } = this.#options;
    const giveUpAt = clock.monotonicMs() + FATE_MS;
    for (;;) {
      const status = await this.#askStatus(id).catch(() => "unknown");
      if (status === "committed") return true;
      if (status === "aborted" || status === null) return false;
      if (clock.monotonicMs() >= giveUpAt) {
        throw new SluiceError(
          "STORE_UNREACHABLE",
          `the server ${this.name} broke off in the middle of a commit and cannot be asked whether it took place`,
          { hint: "Look before you repeat it: it may have been done.", retryable: true },
        );
      }
      await sleep(clock, FATE_EVERY_MS);
    }
  }

  async #askStatus(id: string | null): Promise<string | null> {
    const client = await this.#pool.connect();
    try {
      const { rows } = await client.query<{ status: string | null }>(
        "SELECT pg_xact_status($1::xid8) AS status",
        [id],
      );
      client.release();
      return rows[0]?.status ?? null;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  /** Several looks at one instant of the store. */
  async read<T>(look: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let failed: unknown = null;
    try {
      const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
      const transaction = this.#open(client, begin, this.#begin.read);
      const result = await look(transaction);
      await transaction.commit();
      return result;
    } catch (error) {
      failed = error;
      if (!isBroken(error)) await client.query("ROLLBACK").catch(ignore);
      throw this.#translate(error);
    } finally {
      client.release(failed !== null && isBroken(failed) ? true : undefined);
    }
  }

  #open(client: pg.PoolClient, begin: string, facts: pg.QueryConfig): Transaction {
    client.query(begin).catch(ignore);
    const { time } = this.#options;
    const begun = client.query<Instant & { id: string | null }>(facts).then(({ rows: [row] }) => {
      const { id, now } = row as Instant & { id: string | null };
      if (time !== null) return { id, now: time.monotonicMs(), wallMs: time.wallMs() };
      return { id, now, wallMs: now };
    });
    return new Transaction(client, this.schema, begun, time !== null);
  }

  /** A transaction that somebody else has begun, and will end. */
  adopt(line: Line, now: number): Transaction {
    const { time } = this.#options;
    const instant =
      time === null ? { now, wallMs: now } : { now: time.monotonicMs(), wallMs: time.wallMs() };
    return new Transaction(
      line,
      this.schema,
      Promise.resolve({ id: null, ...instant }),
      time !== null,
    );
  }

  async #connect(): Promise<pg.PoolClient> {
    if (this.#closed) {
      throw new SluiceError("STORE_CLOSED", `the connection to ${this.name} has been closed`, {
        hint: "Look before the engine closes.",
      });
    }
    return this.#pool.connect();
  }

  #translate(error: unknown): unknown {
    return translateError(error, this.name);
  }

  /** Calls back after each commit of this process after which others should look. */
  onCommit(listener: () => void): () => void {
    this.#onCommit.add(listener);
    return () => void this.#onCommit.delete(listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#onCommit.clear();
    await this.#pool.end();
  }
}

/** A plain connection, without pipelining. */
export function createClient(address: Address): pg.Client {
  return new pg.Client(composeConfig(address));
}

function composeConfig({ host, port, database, user, password, ssl }: Address): pg.ClientConfig {
  return {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(database === undefined ? {} : { database }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ssl,
    application_name: "sluice",
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS,
    types: { getTypeParser: findParser },
  };
}

export function findParser(type: number, format?: string): Parse {
  const own = format === "binary" ? undefined : PARSERS.get(type);
  return own ?? (types.getTypeParser(type, format as "text") as Parse);
}

/** As plain bytes, which are the reader's own. */
function readBytes(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text.slice(BYTEA_PREFIX.length), "hex"));
}

function ignore(): void {}
