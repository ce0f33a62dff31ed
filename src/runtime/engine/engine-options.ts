/** What an engine, a submit and a close are told. */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import type { Log } from "../system/log.ts";
import type { LedgerOptions } from "../evidence/ledger-signing-job.ts";
import type { EngineSettings } from "../system/settings.ts";

export interface EngineOptions extends Partial<EngineSettings> {
  /** Work on the pipelines whose batches are submitted here. Default true. */
  readonly work?: boolean;
  readonly log?: Log;
  readonly clock?: Clock;
  readonly random?: Random;
  /** Is told how the worker is, for a thread that answers for its health. */
  readonly health?: WorkerHealth;
  /**
   * Secrets that no log, metric, dead letter or record may hold, beside those that are known by their
   * shape (passwords in addresses, tokens, values of names like `password`).
   */
  readonly redact?: readonly string[];
  /** Sign the ledgers of batches: with which key, and how often. Default not. */
  readonly ledger?: LedgerOptions | null;
  /** Close the store with the engine. Default false. */
  readonly ownsStore?: boolean;
}

export interface SubmitOptions {
  /** The same key twice gives the same batch. */
  readonly key?: string;
  /** Whose batch it is; default the pipeline's name. */
  readonly lane?: string;
  /** Take up an unfinished batch of the same pipeline and input, if there is one. */
  readonly resume?: boolean;
  /** Refuse the batch before anything runs if one item is bad; default as the pipeline says. */
  readonly strict?: boolean;
  /**
   * Your own connection to the store's database with a transaction open on it: the batch is there if
   * you commit. A `DatabaseSync` of node:sqlite, or a client of `pg`.
   */
  readonly transaction?: unknown;
  /** When it expires if it has not ended: what did not run by then is cancelled. Default never. */
  readonly deadline?: Date;
}

export interface CloseOptions {
  /** How long items in hand may take; default the setting `drainMs`. */
  readonly drainMs?: number;
}
