/** The open readers of a worker, one for each batch, so that leases share their files. */
import { describeError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import { BatchReader } from "./batch-reader.ts";
import type { Log } from "../system/log.ts";
import type { Step } from "../pipeline/step.ts";

export interface ReaderPoolParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly step: Step;
}

/** Readers that stay open; more only while all of them are in use. */
const READERS_MAX = 100;

export class ReaderPool {
  readonly #parts: ReaderPoolParts;
  /** In the order in which they were opened. */
  readonly #readers = new Map<string, BatchReader>();

  constructor(parts: ReaderPoolParts) {
    this.#parts = parts;
  }

  find(batch: string): BatchReader | undefined {
    return this.#readers.get(batch);
  }

  open(batch: BatchSnapshot): BatchReader {
    const known = this.#readers.get(batch.id);
    if (known !== undefined) return known;
    const reader = new BatchReader(batch, this.#parts.step, this.#parts);
    if (this.#readers.size >= READERS_MAX) this.#dropOldest();
    this.#readers.set(batch.id, reader);
    return reader;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#readers.values()].map((reader) => this.#close(reader)));
    this.#readers.clear();
  }

  #dropOldest(): void {
    for (const [id, reader] of this.#readers) {
      if (!reader.isIdle) continue;
      this.#readers.delete(id);
      void this.#close(reader);
      return;
    }
  }

  /** A source that does not close must not block a stop. */
  async #close(reader: BatchReader): Promise<void> {
    try {
      await reader.close();
    } catch (error) {
      const { message } = describeError(error);
      this.#parts.log({ level: "warn", event: "source.close_failed", message, error });
    }
  }
}
