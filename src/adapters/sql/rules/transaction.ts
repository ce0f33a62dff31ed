/** A transaction as the rules of both stores see it. */
import type { Act } from "./act.ts";
import type { SharedStatement, Value } from "./statement.ts";

/** What the stores' locks are for. SQLite has one writer at a time, and needs none of them. */
export type LockKind = "lane" | "pauses" | "scope" | "numbering" | "limits";

export interface RuleTransaction {
  /** Milliseconds for leases, back-off and limits. Known after the first answer. */
  readonly now: number;
  /** Milliseconds since 1970, for people. Known after the first answer. */
  readonly wallMs: number;
  /** For a rule that needs the time before its first question. */
  begin(): Act<void>;
  get<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row | undefined>;
  all<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row[]>;
  /** Returns how many rows it changed. */
  run(statement: SharedStatement, ...values: readonly Value[]): Act<number>;
  /** A change whose answer is not needed. */
  send(statement: SharedStatement, ...values: readonly Value[]): void;
  /** Waits for a lock that is held until the end. */
  lock(kind: LockKind, name: string): Act<void>;
  /** Notifies others after the commit: there is something new to do or to see. */
  notify(): void;
}
