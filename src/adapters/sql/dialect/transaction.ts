/** A transaction as the rules of both stores see it. */
import type { Act } from "./act.ts";
import type { PageSize } from "./page.ts";
import type { SharedStatement, Value } from "./statement.ts";

/** What the stores' locks are for. SQLite has one writer at a time, and needs none of them. */
export type LockKind = "lane" | "pauses" | "scope" | "numbering" | "limits";

/** Another transaction holds a lock that must not be waited for: everything starts again. */
export class LockTaken extends Error {
  override readonly name = "LockTaken";
}

/** The last record of a batch. */
export interface ChainHead {
  readonly id: string;
  readonly seq: number;
  readonly hash: string;
}

/** Values of one column, a row each. */
export type Column = readonly (string | number | null)[];

export interface RuleTransaction {
  /** Every question costs a round trip. */
  readonly isRemote: boolean;
  /** Milliseconds for leases, back-off and limits. Known after the first answer. */
  readonly now: number;
  /** Milliseconds since 1970, for people. Known after the first answer. */
  readonly wallMs: number;
  /**
   * The heads of the chains that it has read or written. A batch is locked when a record is added,
   * so they stay the heads until the end. Null where reading again costs less than remembering.
   */
  readonly heads: Map<number, ChainHead> | null;
  /** For a rule that needs the time before its first question. */
  begin(): Act<void>;
  get<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row | undefined>;
  all<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row[]>;
  /** The first rows, as many as fit a page. SQLite reads no others. */
  page<Row>(statement: SharedStatement, values: readonly Value[], size: PageSize<Row>): Act<Row[]>;
  /** Returns how many rows it changed. */
  run(statement: SharedStatement, ...values: readonly Value[]): Act<number>;
  /** A change whose answer is not needed. */
  send(statement: SharedStatement, ...values: readonly Value[]): void;
  /**
   * The same change for each row of `columns`, whose values come after the fixed ones. PostgreSQL
   * gets one statement with a list for each column, SQLite one call for each row.
   */
  sendEach(
    statement: SharedStatement,
    fixed: readonly Value[],
    ...columns: readonly Column[]
  ): void;
  /** The rows for each row of `columns`, in the same way. */
  allEach<Row>(
    statement: SharedStatement,
    fixed: readonly Value[],
    ...columns: readonly Column[]
  ): Act<Row[]>;
  /** Waits for a lock that is held until the end. */
  lock(kind: LockKind, name: string): Act<void>;
  /** In one order for all, so that two transactions that want several never wait for each other. */
  lockAll(kind: LockKind, names: readonly string[]): Act<void>;
  /**
   * Waits for the lock for all writes to a batch; false when the batch is gone. Data that was read
   * before may have changed meanwhile.
   */
  lockBatch(num: number): Act<boolean>;
  /** A shared lock; starts again when another transaction holds it exclusively. */
  tryLockShared(kind: LockKind, name: string): Act<void>;
  /** Notifies others after the commit: there is something new to do or to see. */
  notify(): void;
}
