/**
 * Signs the chains of batches: of ended batches soon after their end, of running ones at intervals.
 * It is a subscriber of events like any other, so a batch that ended while no signing job ran is
 * signed when one starts.
 */
import { isEnded, RECORD_TYPES, type RecordType } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { openKeyFile } from "../../ledger/keys/key-file.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import { type Clock, formatInstant, sleep } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import { LedgerSigner, type OpenKey } from "./ledger-signer.ts";
import type { Log } from "../system/log.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";

/** After these the batch continues: there will be more to sign soon. */
const UNDER_WAY: readonly RecordType[] = [
  "batch.submitted",
  "batch.started",
  "slicing.started",
  "slicing.finished",
  "batch.sealed",
  "step.ended",
  "batch.drained",
];
/** The events that it receives: any that may be the last one of a batch. */
export const ATTESTED = RECORD_TYPES.filter((type) => !UNDER_WAY.includes(type));

export interface LedgerOptions {
  /**
   * The key that signs: a file (created if missing, readable by its owner only), or a function that
   * opens the key.
   */
  readonly keyFile: string | OpenKey;
  /** How often a running batch is signed. Default every minute. */
  readonly everyMs?: number;
}

/** A named file that cannot be used is refused at start. */
export function checkLedger({ keyFile }: LedgerOptions, clock: Pick<Clock, "wallMs">): void {
  if (typeof keyFile === "string") openKeyFile(keyFile, formatInstant(clock.wallMs()));
}

function findKey({ keyFile }: LedgerOptions): OpenKey {
  return typeof keyFile === "string" ? (at) => openKeyFile(keyFile, at) : keyFile;
}

/** Later, work continues unsigned: when the key is usable again, everything is signed. */
function openLater(open: OpenKey): OpenKey {
  return (at) => {
    try {
      return open(at);
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      const { code, message, field, kind, hint = "" } = error;
      throw new SluiceError(code, message, { field, kind, hint, retryable: true, cause: error });
    }
  };
}

export interface LedgerSigningParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
}

const EVERY_MS = 60_000;
/** How many running batches each round signs at most; the newest ones. */
const RUNNING_MAX = 4_096;
/** For how many batches the signed length is remembered. */
const KNOWN_MAX = 10_000;
/** A batch that waits for its turn has almost nothing to sign. */
const RUNNING = ["slicing", "running"] as const;

export class LedgerSigningJob {
  readonly #parts: LedgerSigningParts;
  readonly #options: LedgerOptions;
  /** How many links are signed, by batch. */
  readonly #signed = new Map<string, number>();
  readonly #signer: LedgerSigner;
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;

  constructor(parts: LedgerSigningParts, options: LedgerOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#signer = new LedgerSigner(parts, openLater(findKey(options)));
    this.#loop = this.#run().catch((error: unknown) => parts.onFatal(error));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  /** A batch has a new record. If the batch has ended, it has a signed head after this. */
  readonly attest = async ({ batch, seq }: BatchEvent): Promise<void> => {
    if (seq <= (this.#signed.get(batch) ?? 0)) return;
    const snapshot = await this.#parts.store.getBatch(batch);
    if (snapshot === null || !isEnded(snapshot.state)) return;
    if (this.#signed.size >= KNOWN_MAX) this.#signed.clear();
    this.#signed.set(batch, (await this.#signer.sign(batch)) ?? seq);
  };

  /** Signs what is new in a batch now, for a caller that needs it. */
  sign(batch: string): Promise<number | null> {
    return this.#signer.sign(batch);
  }

  async #run(): Promise<void> {
    const { clock } = this.#parts;
    const { everyMs = EVERY_MS } = this.#options;
    const loopBackoff = new LoopBackoff({ event: "signing.retry" }, this.#parts);
    while (!this.#stop.signal.aborted) {
      await sleep(clock, everyMs, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      try {
        await this.#signRunning(everyMs);
        loopBackoff.clear();
      } catch (error) {
        const waitMs = loopBackoff.note(error);
        if (waitMs === null) throw error;
        await sleep(clock, waitMs, this.#stop.signal);
      }
    }
  }

  /** Only one of several signing jobs does it. */
  async #signRunning(everyMs: number): Promise<void> {
    const { store, worker } = this.#parts;
    if (!(await store.claim("sign-ledgers", worker, everyMs))) return;
    for (const { id } of await store.listBatches({ states: RUNNING, limit: RUNNING_MAX })) {
      if (this.#stop.signal.aborted) return;
      await this.#signer.sign(id);
    }
  }
}
