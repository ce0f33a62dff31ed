/**
 * One connection to a SQLite file, shared fairly with other processes: a call waits for the write
 * lock only a few milliseconds, then retries later with jitter, so that neither this process's
 * event loop nor another process starves.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type Clock, sleep } from "../../../ports/clock.ts";
import type { Random } from "../../../ports/random.ts";
import { isBusy, translateError } from "./errors.ts";
import type { SynchronousMode } from "./synchronous.ts";
import { prepareOnce, Statements, Transaction } from "./transaction.ts";

export interface ConnectionOptions {
  readonly path: string;
  /** How long a write waits for the lock before it gives up with STORE_BUSY. */
  readonly busyMs: number;
  readonly clock: Clock;
  readonly random: Random;
}

/** How long SQLite itself may wait for the lock, and so block this process's event loop. */
const BLOCKING_WAIT_MS = 5;
const RETRY_MIN_MS = 1;
const RETRY_MAX_MS = 25;
const CACHE_KIB = 2_048;
/** 16 MiB of log: a page that many commits write is copied into the file once for all of them. */
const WAL_CHECKPOINT_PAGES = 4_000;
/** How long to wait for readers of the log when it is emptied. */
const EMPTY_LOG_MS = 1_000;

/**
 * Deleted content in a used page is always overwritten: otherwise a page that splits keeps copies
 * that erasing never finds (of 400 small rows 23 stayed), and no difference in CPU time was
 * measured. Freed pages are overwritten, which costs writing them, only where it matters.
 */
const OVERWRITE_ROWS = "PRAGMA secure_delete = FAST";
const OVERWRITE_PAGES = "PRAGMA secure_delete = ON";

export class Connection {
  readonly path: string;
  /** Of the moment: calls are synchronous, so there is never another one. */
  readonly transaction: Transaction;
  readonly #db: DatabaseSync;
  readonly #busyMs: number;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #onCommit = new Set<() => void>();

  private constructor(db: DatabaseSync, options: ConnectionOptions) {
    this.#db = db;
    this.transaction = new Transaction(new Statements(db), options.clock);
    this.path = options.path;
    this.#busyMs = options.busyMs;
    this.#clock = options.clock;
    this.#random = options.random;
  }

  static open(options: ConnectionOptions): Connection {
    let db: DatabaseSync;
    try {
      db = new DatabaseSync(options.path, { timeout: BLOCKING_WAIT_MS });
    } catch (error) {
      throw translateError(error, options.path);
    }
    return new Connection(db, options);
  }

  /** A connection that the caller opened and will close. */
  static adopt(db: DatabaseSync, options: ConnectionOptions): Connection {
    return new Connection(db, options);
  }

  /**
   * Sets how the file is written. This changes the file, so it comes after the check that the file
   * is ours.
   */
  async configure(synchronous: SynchronousMode): Promise<void> {
    await this.#retryWhileLocked(() => {
      this.#db.exec("PRAGMA journal_mode = WAL");
      this.#db.exec(`PRAGMA synchronous = ${synchronous.toUpperCase()}`);
      this.#db.exec("PRAGMA foreign_keys = ON");
      this.#db.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
      this.#db.exec(`PRAGMA wal_autocheckpoint = ${WAL_CHECKPOINT_PAGES}`);
      this.#db.exec(OVERWRITE_ROWS);
    });
  }

  /** A statement of the store. */
  prepare(sql: string): StatementSync {
    return prepareOnce(this.#db, sql);
  }

  /** A statement of a user, as it is. */
  prepareForeign(sql: string): StatementSync {
    return this.#db.prepare(sql);
  }

  exec(sql: string): void {
    this.#db.exec(sql);
  }

  /** The path of the opened file; null for a database in memory. */
  get location(): string | null {
    return this.#db.location();
  }

  /** A failed statement may have ended it. */
  get isInTransaction(): boolean {
    return this.#db.isTransaction;
  }

  /** Runs a change in its own transaction; retries it as a whole while the file is locked. */
  async write<T>(change: (transaction: Transaction) => T): Promise<T> {
    const result = await this.#retryWhileLocked(() => {
      this.#db.exec("BEGIN IMMEDIATE");
      try {
        const changed = change(this.transaction);
        this.#db.exec("COMMIT");
        return changed;
      } catch (error) {
        // A failed COMMIT may have rolled back by itself.
        if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
        throw error;
      }
    });
    for (const listener of this.#onCommit) listener();
    return result;
  }

  /**
   * A change after which neither the file nor the log contains the removed data. While others keep
   * reading, the log may still contain it until it is next emptied, at the latest when the last
   * process closes the file.
   */
  async erase<T>(change: (transaction: Transaction) => T): Promise<T> {
    const result = await this.write((transaction) => {
      this.#db.exec(OVERWRITE_PAGES);
      try {
        return change(transaction);
      } finally {
        this.#db.exec(OVERWRITE_ROWS);
      }
    });
    const giveUpAt = this.#clock.monotonicMs() + Math.min(this.#busyMs, EMPTY_LOG_MS);
    while (!(await this.#emptyLog()) && this.#clock.monotonicMs() < giveUpAt) {
      await sleep(this.#clock, RETRY_MIN_MS + RETRY_MAX_MS * this.#random.next());
    }
    return result;
  }

  #emptyLog(): Promise<boolean> {
    return this.#retryWhileLocked(() => {
      const row = this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
      return row?.["busy"] === 0;
    });
  }

  async read<T>(look: (transaction: Transaction) => T): Promise<T> {
    return this.#retryWhileLocked(() => look(this.transaction));
  }

  async #retryWhileLocked<T>(attempt: () => T): Promise<T> {
    const giveUpAt = this.#clock.monotonicMs() + this.#busyMs;
    for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      try {
        return attempt();
      } catch (error) {
        if (!isBusy(error) || this.#clock.monotonicMs() >= giveUpAt) {
          throw translateError(error, this.path);
        }
      }
      await sleep(this.#clock, RETRY_MIN_MS + waitMs * this.#random.next());
    }
  }

  /** Calls back after each commit of this connection. */
  onCommit(listener: () => void): () => void {
    this.#onCommit.add(listener);
    return () => void this.#onCommit.delete(listener);
  }

  close(): void {
    this.#onCommit.clear();
    if (this.#db.isOpen) this.#db.close();
  }
}
