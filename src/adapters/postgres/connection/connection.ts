/**
 * Connections to a PostgreSQL server, and transactions on them. A transaction that conflicts with
 * others is repeated. One whose connection broke before its COMMIT was sent did certainly not
 * happen. If it broke afterwards, the server is asked by the transaction's id whether it was
 * committed (fate.ts). The result is never guessed.
 */
import pg from "pg";
import { type Clock, sleep } from "../../../ports/clock.ts";
import type { Random } from "../../../ports/random.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { invariant } from "../../../core/base/invariant.ts";
import type { Address } from "./address.ts";
import { isBroken, isContention, isPoolersFault, translateError } from "./errors.ts";
import { type Begun, decideFate, type Fate, readStatus, SELECT_LIFE } from "./fate.ts";
import { listOwnSettings } from "./own-settings.ts";
import { decodeJson, decodeText } from "./statement.ts";
import { type Instant, type Line, type Question, Transaction } from "./transaction.ts";

export interface ConnectionOptions {
  readonly address: Address;
  /** How long a change is retried while other transactions use the same rows. */
  readonly busyMs: number;
  readonly connectionsMax: number;
  readonly clock: Clock;
  readonly random: Random;
  /** For tests: the store's time, instead of the server's. */
  readonly time: Pick<Clock, "monotonicMs" | "wallMs"> | null;
}

const CONNECT_MS = 5_000;
/** A statement without an answer by then will never get one: the connection is broken. */
export const ANSWER_MS = 30_000;
/**
 * How long a transaction may stay silent: a process that was suspended or cut off must not keep its
 * locks from others.
 */
const SILENT_MS = 5_000;
/** How long to wait for a lock: a longer wait means that something is wrong. */
const LOCK_MS = 10_000;
const RETRY_MIN_MS = 1;
const RETRY_MAX_MS = 50;
/** How long, and how often, the server is asked about a COMMIT that was not answered. */
const FATE_MS = 15_000;
const FATE_EVERY_MS = 100;

const INT8 = 20;
const NUMERIC = 1700;
const BYTEA = 17;
const JSON_TYPE = 114;
const BYTEA_PREFIX = "\\x";
const TEXTS = [25, 1043];

const { types } = pg;
type Parse = (text: string) => unknown;
const PARSERS = new Map<number, Parse>([
  [INT8, Number],
  [NUMERIC, Number],
  [BYTEA, readBytes],
  [JSON_TYPE, decodeJson],
  ...TEXTS.map((type): [number, Parse] => [type, decodeText]),
]);

/** A transaction starts with its time and, if it writes, its id. */
function composeBegin(schema: string, writes: boolean): Question {
  const id = writes ? "pg_current_xact_id()::text" : "NULL";
  const own = listOwnSettings(schema);
  const set = own.map(([name], at) => `set_config('${name}', $${at + 1}, true)`).join(", ");
  return {
    name: writes ? "sluice_begin" : "sluice_begin_look",
    text: `SELECT ${set},
      set_config('idle_in_transaction_session_timeout', '${SILENT_MS}', true),
      set_config('lock_timeout', '${LOCK_MS}', true), ${id} AS id,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
    values: own.map(([, value]) => value),
  };
}

export class Connection {
  readonly name: string;
  readonly schema: string;
  readonly #pool: pg.Pool;
  readonly #options: ConnectionOptions;
  readonly #begin: { readonly write: Question; readonly read: Question };
  readonly #onCommit = new Set<() => void>();
  readonly #lives = new WeakMap<pg.PoolClient, Promise<string | null>>();
  /** A pooler does not support prepared statements: then statements are sent in full each time. */
  #isNameless = false;
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
    // An idle connection that breaks is replaced when the next one is needed.
    this.#pool.on("error", ignore);
    // A connection that breaks in use also fails its queries. Without a listener, the error event
    // would end the process.
    this.#pool.on("connect", (client) => client.on("error", ignore));
  }

  /** One query outside of any transaction. */
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

  /** A transaction on a plain connection, which is closed afterwards: for changes of the schema. */
  async alone(change: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = this.createClient();
    try {
      await client.connect();
      await client.query("BEGIN");
      // A process that is suspended in the middle of it must not block all others.
      await client.query(`SET LOCAL idle_in_transaction_session_timeout = ${SILENT_MS}`);
      await change(client);
      await client.query("COMMIT");
    } catch (error) {
      throw this.#translate(error);
    } finally {
      await client.end().catch(ignore);
    }
  }

  /** A separate connection, for notifications. */
  createClient(): pg.Client {
    return createClient(this.#options.address);
  }

  /** Runs a change in one transaction; repeats it as a whole while it conflicts with others. */
  async write<T>(change: (transaction: Transaction) => Promise<T>): Promise<T> {
    const { clock, random, busyMs } = this.#options;
    const giveUpAt = clock.monotonicMs() + busyMs;
    for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      const named = !this.#isNameless;
      try {
        return await this.#writeOnce(change);
      } catch (error) {
        if (named && this.#stopsUsingNames(error)) continue;
        if (!isContention(error) || clock.monotonicMs() >= giveUpAt) throw this.#translate(error);
      }
      await sleep(clock, RETRY_MIN_MS + waitMs * random.next());
    }
  }

  async #writeOnce<T>(change: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    let failed: unknown = null;
    let attempt: Attempt<T>;
    try {
      const life = this.#readLife(client);
      const transaction = this.#open(client, "BEGIN", this.#begin.write);
      attempt = await settle(client, transaction, change);
      failed = attempt.doubt;
      if (failed !== null) attempt = { ...attempt, begun: { ...attempt.begun, life: await life } };
    } catch (error) {
      failed = error;
      throw error;
    } finally {
      client.release(failed !== null && isBroken(failed) ? true : undefined);
    }
    // By now it holds no connection: many changes whose connections broke at once would wait for
    // each other.
    if (attempt.doubt !== null && !(await this.#wasCommitted(attempt.begun))) throw attempt.doubt;
    if (attempt.notifies) for (const listener of this.#onCommit) listener();
    return attempt.result;
  }

  /** Once per connection, because a connection does not outlive its server. */
  #readLife(client: pg.PoolClient): Promise<string | null> {
    let life = this.#lives.get(client);
    if (life === undefined) {
      life = client.query<{ life: string }>(SELECT_LIFE).then(
        ({ rows }) => rows[0]?.life ?? null,
        () => null,
      );
      this.#lives.set(client, life);
    }
    return life;
  }

  /**
   * Whether a transaction whose COMMIT was not answered was committed: asks until that is known.
   */
  async #wasCommitted(begun: Begun): Promise<boolean> {
    const { clock } = this.#options;
    const giveUpAt = clock.monotonicMs() + FATE_MS;
    for (;;) {
      const fate = await this.#queryFate(begun).catch(() => "ask_again");
      if (fate === "committed") return true;
      if (fate === "not_committed") return false;
      if (fate === "unknowable" || clock.monotonicMs() >= giveUpAt) {
        throw new SluiceError(
          "STORE_UNREACHABLE",
          `the connection to ${this.name} broke during a commit, and the server cannot tell whether it was committed`,
          { hint: "Check before you retry: it may have been committed.", retryable: true },
        );
      }
      await sleep(clock, FATE_EVERY_MS);
    }
  }

  /** On a separate connection: those of the pool may all be waiting for something. */
  async #queryFate(begun: Begun): Promise<Fate> {
    const { id } = begun;
    invariant(id !== null, "a transaction that writes has a number");
    const client = createClient(this.#options.address, { query_timeout: CONNECT_MS });
    try {
      await client.connect();
      return decideFate(begun, await readStatus(client, id));
    } finally {
      await client.end().catch(ignore);
    }
  }

  /** True when that is why it failed, and a retry without names will work. */
  #stopsUsingNames(error: unknown): boolean {
    this.#isNameless ||= isPoolersFault(error);
    return isPoolersFault(error);
  }

  /** Several reads at one instant of the store. */
  async read<T>(look: (transaction: Transaction) => Promise<T>): Promise<T> {
    const named = !this.#isNameless;
    try {
      return await this.#readOnce(look);
    } catch (error) {
      if (named && this.#stopsUsingNames(error)) return this.read(look);
      throw this.#translate(error);
    }
  }

  async #readOnce<T>(look: (transaction: Transaction) => Promise<T>): Promise<T> {
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
      throw error;
    } finally {
      client.release(failed !== null && isBroken(failed) ? true : undefined);
    }
  }

  #open(client: pg.PoolClient, begin: string, facts: Question): Transaction {
    client.query(begin).catch(ignore);
    const { time } = this.#options;
    const line: Line = this.#isNameless ? withoutNames(client) : client;
    const begun = line.query(facts).then(({ rows: [row] }) => {
      const { id, now } = row as Instant & { id: string | null };
      if (time !== null) return { id, now: time.monotonicMs(), wallMs: time.wallMs() };
      return { id, now, wallMs: now };
    });
    return new Transaction(line, this.schema, begun, time !== null);
  }

  /** A transaction that the caller began and will end. */
  adopt(line: Line, now: number): Transaction {
    const { time } = this.#options;
    const instant =
      time === null ? { now, wallMs: now } : { now: time.monotonicMs(), wallMs: time.wallMs() };
    return new Transaction(
      // A pooler may be between it and the server.
      withoutNames(line),
      this.schema,
      Promise.resolve({ id: null, ...instant }),
      time !== null,
    );
  }

  async #connect(): Promise<pg.PoolClient> {
    if (this.#closed) {
      throw new SluiceError("STOPPED", `the connection to ${this.name} has been closed`, {
        hint: "Do this before you close the engine.",
      });
    }
    try {
      return await this.#pool.connect();
    } catch (error) {
      // Translated for reads as well: a caller that got the driver's error would take it as final.
      throw this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    return translateError(error, this.name);
  }

  /** Calls back after each commit of this process that other processes may react to. */
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

/** A change as far as it got: in doubt when its COMMIT was sent and not answered. */
interface Attempt<T> {
  readonly result: T;
  readonly begun: Begun;
  readonly notifies: boolean;
  readonly doubt: Error | null;
}

async function settle<T>(
  client: pg.PoolClient,
  transaction: Transaction,
  change: (transaction: Transaction) => Promise<T>,
): Promise<Attempt<T>> {
  let result: T;
  try {
    result = await change(transaction);
    await transaction.begin();
  } catch (error) {
    if (!isBroken(error)) await client.query("ROLLBACK").catch(ignore);
    throw error;
  }
  let doubt: Error | null = null;
  try {
    await transaction.commit();
  } catch (error) {
    if (!isBroken(error)) throw error;
    doubt = error as Error;
  }
  const { id, notifies } = transaction;
  return { result, begun: { id, life: null }, notifies, doubt };
}

function withoutNames(line: Line): Line {
  return { query: ({ name: _name, ...query }) => line.query(query) };
}

/** A plain connection, without pipelining. */
export function createClient(address: Address, more: pg.ClientConfig = {}): pg.Client {
  const client = new pg.Client({ ...composeConfig(address), ...more });
  // A failed query reports the error itself; without a listener, the error event would end the
  // process.
  client.on("error", ignore);
  return client;
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

/** As plain bytes that the reader owns. */
function readBytes(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text.slice(BYTEA_PREFIX.length), "hex"));
}

function ignore(): void {}
