/**
 * The store is the truth: batches, chunks, outcomes, dead letters, results and records live in it.
 * Its contract is the conformance suite (test/conformance), which every adapter passes.
 */
import type { ConductorStore } from "./conductor-store.ts";
import type { DeliveryStore } from "./delivery-store.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { TokenStore } from "./token-store.ts";
import type { OperatorStore } from "./operator-store.ts";
import type { QueryStore } from "./query-store.ts";
import type { TopicStore } from "./topic-store.ts";
import type { TransactionalStore } from "./caller-transaction.ts";
import type { WorkerStore } from "./worker-store.ts";

export type SqlDialect = "sqlite" | "postgres";

export interface Store
  extends ConductorStore,
    OperatorStore,
    WorkerStore,
    TokenStore,
    QueryStore,
    DeliveryStore,
    LedgerStore,
    TopicStore,
    TransactionalStore {
  /** A name for people: a file, a server. */
  readonly name: string;
  /** Whether its workers may be on other hosts. */
  readonly spansHosts?: boolean;
  /**
   * The SQL in which handlers may queue statements for the commits of their items; absent for none.
   */
  readonly dialect?: SqlDialect;
  /** Default polling intervals for this store; longer for a server with many waiting processes. */
  readonly looks?: { readonly pollMs: number; readonly sweepMs: number };
  /**
   * Calls back when something in the store may have changed, in any process. Only a hint: it may
   * come late, often or without a change, so the caller checks for itself and also polls slowly.
   */
  watch(onChange: () => void): () => void;
  /** How far a durable reader has come; 0 when it is new. */
  readPosition(reader: string): Promise<number>;
  /**
   * Never moves a reader backwards. With `from`, the position at which the caller left it, it does
   * not move a reader that was rewound in between, and returns false.
   */
  savePosition(reader: string, position: number, from?: number): Promise<boolean>;
  /** Writes a consistent copy of everything, while other processes continue to work. */
  backup(path: string): Promise<void>;
  close(): Promise<void>;
}
