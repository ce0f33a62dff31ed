/**
 * One transaction on one connection. Statements are sent without waiting for earlier answers, so
 * that independent ones share a round trip. When one fails, the server refuses all later ones until
 * the end.
 */
import type { QueryResult } from "pg";
import { invariant } from "../../../core/base/invariant.ts";
import { type LockKind, LockTaken, type RuleTransaction } from "../../sql/dialect/transaction.ts";
import { PostgresRules } from "./rules.ts";
import { encodeValue, type Statement, type Value } from "./statement.ts";

/** What a transaction needs from a connection. */
export interface Line {
  query(question: Question): Promise<QueryResult>;
}

export interface Question {
  /** Prepared under this name, and called by it from then on. */
  name?: string;
  text: string;
  values?: unknown[];
  queryMode?: string;
  query_timeout?: number;
}

export interface Instant {
  /** Milliseconds for leases, back-off and limits, with a fraction. */
  readonly now: number;
  /** Milliseconds since 1970, for people. */
  readonly wallMs: number;
}

export class Transaction {
  readonly #line: Line;
  readonly #schema: string;
  readonly #begun: Promise<Instant & { readonly id: string | null }>;
  /** For tests: time stands still within a transaction. */
  readonly #isTimeStill: boolean;
  #instant: (Instant & { readonly id: string | null }) | null = null;
  #fault: unknown = null;
  #notifies = false;
  #rules: RuleTransaction | null = null;

  constructor(
    line: Line,
    schema: string,
    begun: Promise<Instant & { readonly id: string | null }>,
    isTimeStill = false,
  ) {
    this.#line = line;
    this.#schema = schema;
    this.#isTimeStill = isTimeStill;
    this.#begun = begun.then((instant) => {
      this.#instant = instant;
      return instant;
    });
    this.#begun.catch(ignore);
  }

  /** The store's clock at the beginning; known after the first answer. */
  get now(): number {
    return this.#known().now;
  }

  get wallMs(): number {
    return Math.floor(this.#known().wallMs);
  }

  /**
   * The server's id of the transaction, to find out whether it was committed; null if it writes
   * nothing.
   */
  get id(): string | null {
    return this.#known().id;
  }

  #known(): Instant & { readonly id: string | null } {
    invariant(this.#instant !== null, "a transaction has begun before its time is asked for");
    return this.#instant;
  }

  /** The same transaction, for rules of both stores. */
  get rules(): RuleTransaction {
    this.#rules ??= new PostgresRules(this);
    return this.#rules;
  }

  /** For a caller that needs the time before its first statement. */
  async begin(): Promise<void> {
    await this.#begun;
  }

  /** The store's clock after all earlier statements: after the locks that they waited for. */
  async readNow(): Promise<Instant> {
    if (this.#isTimeStill) return this.#begun;
    const { now } = (await this.get<{ now: number }>(READ_NOW)) as { now: number };
    return { now, wallMs: now };
  }

  async #query({ name, text }: Statement, values: readonly Value[]): Promise<QueryResult> {
    try {
      return await this.#line.query({ name, text, values: values.map(encodeValue) });
    } catch (error) {
      // After a failed statement the server refuses later ones with a generic error. The first
      // failure may be that of BEGIN, whose answer is about to arrive.
      if (this.#fault === null) await this.#begun;
      this.#fault ??= error;
      throw this.#fault as Error;
    }
  }

  all<Row>(statement: Statement, ...values: readonly Value[]): Promise<Row[]> {
    return awaitLater(this.#query(statement, values).then(({ rows }) => rows as Row[]));
  }

  get<Row>(statement: Statement, ...values: readonly Value[]): Promise<Row | undefined> {
    return awaitLater(
      this.#query(statement, values).then(({ rows }) => rows[0] as Row | undefined),
    );
  }

  /** Returns how many rows it changed. */
  run(statement: Statement, ...values: readonly Value[]): Promise<number> {
    return awaitLater(this.#query(statement, values).then(({ rowCount }) => rowCount ?? 0));
  }

  /**
   * A change whose answer is not needed: its failure shows at the end, with which it shares a round
   * trip.
   */
  send(statement: Statement, ...values: readonly Value[]): void {
    void this.#query(statement, values).catch(ignore);
  }

  /**
   * For statements whose failure does not end the transaction, because the caller rolls back to a
   * savepoint. With `values`, even an empty list, it must be a single statement: the server accepts
   * several only without values. Without a name: users' statements are not worth preparing on the
   * server. `answerMs` is how long to wait for the answer, if not the default.
   */
  async attempt(text: string, values?: readonly unknown[], answerMs?: number): Promise<void> {
    const common = { text, ...(answerMs === undefined ? {} : { query_timeout: answerMs }) };
    const one = { ...common, values: [...(values ?? [])], queryMode: "extended" };
    await this.#line.query(values === undefined ? common : one);
  }

  /** The schema of the store's own tables. */
  get schema(): string {
    return this.#schema;
  }

  /** Waits for a lock that is held until the end. */
  async lock(kind: LockKind, name: string): Promise<void> {
    await this.run(LOCK, this.#nameLock(kind, name));
  }

  /** In sorted order, so that two transactions that want several never wait for each other. */
  async lockAll(kind: LockKind, names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    await this.run(
      LOCK_ALL,
      names.map((name) => this.#nameLock(kind, name)),
    );
  }

  /** A shared lock; starts again when another transaction holds it exclusively. */
  async tryLockShared(kind: LockKind, name: string): Promise<void> {
    const row = await this.get<{ got: boolean }>(TRY_LOCK_SHARED, this.#nameLock(kind, name));
    if (row?.got !== true) throw new LockTaken(`${kind} ${name}`);
  }

  #nameLock(kind: LockKind, name: string): string {
    return `${this.#schema}/${kind}/${name}`;
  }

  /** Notifies others after the commit: there is something new to do or to see. */
  notify(): void {
    this.#notifies = true;
  }

  get notifies(): boolean {
    return this.#notifies;
  }

  /** Called only by the code that opened it. */
  async commit(): Promise<void> {
    const { command } = await this.#line.query({ text: "COMMIT" });
    // After a failed statement the server answers a COMMIT with a rollback.
    if (command !== "COMMIT")
      throw (this.#fault as Error | null) ?? new Error("the server rolled back");
  }
}

const READ_NOW: Statement = {
  name: "sluice_now",
  text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
};
const KEY = "hashtextextended($1, 0)";
const LOCK: Statement = { name: "sluice_lock", text: `SELECT pg_advisory_xact_lock(${KEY})` };
const TRY_LOCK_SHARED: Statement = {
  name: "sluice_try_lock_shared",
  text: `SELECT pg_try_advisory_xact_lock_shared(${KEY}) AS got`,
};
const LOCK_ALL: Statement = {
  name: "sluice_lock_all",
  text: `SELECT pg_advisory_xact_lock(key) FROM (
    SELECT DISTINCT hashtextextended(name, 0) AS key FROM unnest($1::text[]) AS name
    ORDER BY key OFFSET 0) AS keys`,
};

/**
 * For an answer that is awaited later, after others. When one of those fails, this one is never
 * awaited; its failure must not end the process.
 */
export function awaitLater<T>(answer: Promise<T>): Promise<T> {
  answer.catch(ignore);
  return answer;
}

function ignore(): void {}
