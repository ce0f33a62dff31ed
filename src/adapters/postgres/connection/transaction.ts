/**
 * One transaction on one connection. Statements go out as they are asked for, without waiting for the
 * answers of those before them, so that what does not depend on an answer shares its round trip. One
 * that fails takes all behind it with it: the server refuses them until the end.
 */
import type { QueryResult } from "pg";
import { invariant } from "../../../core/base/invariant.ts";
import { encodeValue, type Statement, type Value } from "./statement.ts";

/** What a transaction needs of a connection. */
export interface Line {
  query(question: Question): Promise<QueryResult>;
}

export interface Question {
  /** Prepared under it, and asked by it from then on. */
  name?: string;
  text: string;
  values?: unknown[];
  queryMode?: string;
  query_timeout?: number;
}

/** A lock that somebody else has and that must not be waited for: all begins anew. */
export class LockTaken extends Error {
  override readonly name = "LockTaken";
}

/** What the locks of a store are for, so that their names do not meet. */
export type LockKind = "lane" | "pauses" | "scope" | "numbering" | "limits";

export interface Instant {
  /** Milliseconds by which leases, back-off and limits go, with a fraction. */
  readonly now: number;
  /** Milliseconds since 1970, for people. */
  readonly wallMs: number;
}

export class Transaction {
  readonly #line: Line;
  readonly #schema: string;
  readonly #begun: Promise<Instant & { readonly id: string | null }>;
  /** For tests: time does not go on within a transaction. */
  readonly #isTimeStill: boolean;
  #instant: (Instant & { readonly id: string | null }) | null = null;
  #fault: unknown = null;
  #tells = false;

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

  /** The store's clock at the beginning; known once any statement was answered. */
  get now(): number {
    return this.#known().now;
  }

  get wallMs(): number {
    return Math.floor(this.#known().wallMs);
  }

  /** By which the store knows whether it was committed; null where nothing is written. */
  get id(): string | null {
    return this.#known().id;
  }

  #known(): Instant & { readonly id: string | null } {
    invariant(this.#instant !== null, "a transaction has begun before its time is asked for");
    return this.#instant;
  }

  /** Where the time is needed before anything is asked for. */
  async begin(): Promise<void> {
    await this.#begun;
  }

  /** The store's clock behind all that was asked for before: after the locks that were waited for. */
  async readNow(): Promise<Instant> {
    if (this.#isTimeStill) return this.#begun;
    const { now } = (await this.get<{ now: number }>(READ_NOW)) as { now: number };
    return { now, wallMs: now };
  }

  async #query({ name, text }: Statement, values: readonly Value[]): Promise<QueryResult> {
    try {
      return await this.#line.query({ name, text, values: values.map(encodeValue) });
    } catch (error) {
      // Of those behind one that failed the server says only that they come too late. The beginning
      // may be the one, and its failure is heard of in a moment.
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

  /** Answers how many rows it changed. */
  run(statement: Statement, ...values: readonly Value[]): Promise<number> {
    return awaitLater(this.#query(statement, values).then(({ rowCount }) => rowCount ?? 0));
  }

  /** A change whose answer nobody needs: that it fails shows at the end, which it shares a round trip with. */
  send(statement: Statement, ...values: readonly Value[]): void {
    void this.#query(statement, values).catch(ignore);
  }

  /**
   * For statements whose failure does not end the transaction, as whoever sends them goes back to a
   * savepoint then. With values, also with none of them, it is one statement and no more: the server
   * takes several only where there cannot be any. Without a name: what users write is not worth
   * keeping on the server. `answerMs`: how long it is waited for, if not as for any other.
   */
  async attempt(text: string, values?: readonly unknown[], answerMs?: number): Promise<void> {
    const common = { text, ...(answerMs === undefined ? {} : { query_timeout: answerMs }) };
    const one = { ...common, values: [...(values ?? [])], queryMode: "extended" };
    await this.#line.query(values === undefined ? common : one);
  }

  /** Where the store's own tables are. */
  get schema(): string {
    return this.#schema;
  }

  /** Waits for a lock that is held until the end. */
  async lock(kind: LockKind, name: string): Promise<void> {
    await this.run(LOCK, this.#nameLock(kind, name));
  }

  /** In an order of their own, so that two who want several never wait for each other. */
  async lockAll(kind: LockKind, names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    await this.run(
      LOCK_ALL,
      names.map((name) => this.#nameLock(kind, name)),
    );
  }

  /** As a reader among others; begins anew when somebody has it for himself. */
  async tryLockShared(kind: LockKind, name: string): Promise<void> {
    const row = await this.get<{ got: boolean }>(TRY_LOCK_SHARED, this.#nameLock(kind, name));
    if (row?.got !== true) throw new LockTaken(`${kind} ${name}`);
  }

  #nameLock(kind: LockKind, name: string): string {
    return `${this.#schema}/${kind}/${name}`;
  }

  /** Others should look, once it is committed: there is something new to do or to see. */
  tell(): void {
    this.#tells = true;
  }

  get tells(): boolean {
    return this.#tells;
  }

  /** Only whoever opened it ends it. */
  async commit(): Promise<void> {
    const { command } = await this.#line.query({ text: "COMMIT" });
    // After a statement that failed the server answers a COMMIT with a rollback.
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
 * For an answer that is asked for now and waited for behind others. When one of those fails nobody
 * waits for it any more; that it fails as well must not end the process.
 */
export function awaitLater<T>(answer: Promise<T>): Promise<T> {
  answer.catch(ignore);
  return answer;
}

function ignore(): void {}
