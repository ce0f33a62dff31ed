/** Options of an engine, of `submit` and of `close`. */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import type { Log } from "../system/log.ts";
import type { LedgerOptions } from "../evidence/ledger-signing-job.ts";
import type { EngineSettings } from "../system/settings.ts";

/** Options of every engine, with or without its own store. */
export interface SharedEngineOptions extends Partial<EngineSettings> {
  /**
   * `true` (default): work on pipelines whose batches are submitted here. `"submitted"`: work only
   * on those batches. `false`: work on nothing until `work` is called.
   */
  readonly work?: boolean | "submitted";
  readonly log?: Log;
  /**
   * Secrets to remove from logs, metrics, dead letters and records, besides those recognised by
   * their shape (passwords in addresses, tokens, values of names like `password`).
   */
  readonly redact?: readonly string[];
  /** The key that signs ledgers of batches, and how often. Default unsigned. */
  readonly ledger?: LedgerOptions | null;
}

/** What the package's own entries set besides: programs of users have no use for it. */
export interface StartOptions extends SharedEngineOptions {
  readonly clock?: Clock;
  readonly random?: Random;
  /** Receives the worker's state, for the thread that answers health probes. */
  readonly health?: WorkerHealth;
  /** Close the store when the engine closes. Default false. */
  readonly ownsStore?: boolean;
}

export interface SubmitOptions {
  /** The same key twice gives the same batch. */
  readonly key?: string;
  /** The lane of the batch; default the pipeline's name. */
  readonly lane?: string;
  /** Resume an unfinished batch of the same pipeline and input, if there is one. */
  readonly resume?: boolean;
  /** Refuse the whole batch before it runs if an item is bad; default from the pipeline. */
  readonly strict?: boolean;
  /**
   * Your own connection to the store's database with an open transaction: the batch exists when you
   * commit. A `DatabaseSync` of node:sqlite, or a client of `pg`.
   */
  readonly transaction?: unknown;
  /** When the batch expires: items that have not run by then are cancelled. Default never. */
  readonly deadline?: Date;
}

export interface CloseOptions {
  /** How long running items may take; default the setting `drainMs`. */
  readonly drainMs?: number;
}
