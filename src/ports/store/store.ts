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

export const SQL_DIALECTS = ["sqlite", "postgres"] as const;
export type SqlDialect = (typeof SQL_DIALECTS)[number];

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
  /** The name people see: a file, a server. */
  readonly name: string;
  /** Whether whoever works on it may be on other hosts. */
  readonly spansHosts?: boolean;
  /** In which SQL handlers may queue statements for the commits of their items; missing for none. */
  readonly dialect?: SqlDialect;
  /** How often whoever waits should look, unless he says otherwise; a server has many who wait. */
  readonly looks?: { readonly pollMs: number; readonly sweepMs: number };
  /**
   * Calls back when something may have changed, by whomever. Only a hint: it may come late, often
   * or for nothing, so the caller looks for itself and keeps a slow poll beneath it.
   */
  watch(onChange: () => void): () => void;
  /** How far a durable reader has come; 0 when it is new. */
  readPosition(reader: string): Promise<number>;
  /**
   * Never moves a reader backwards. With `from`, the position that the caller left it at, it does not
   * move one that somebody has rewound meanwhile: then it answers false.
   */
  savePosition(reader: string, position: number, from?: number): Promise<boolean>;
  /** Writes a consistent copy of everything, while others go on working. */
  backup(path: string): Promise<void>;
  close(): Promise<void>;
}
