/** Batches as they end, read from the store's records; those that ended before are left out. */
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";

const RECORDS_PER_READ = 1_000;

export interface EndedBatch {
  /** Position of the record that says so: the same for every reader. */
  readonly position: number;
  readonly batch: BatchSnapshot;
}

export class EndedBatches {
  readonly #store: Store;
  #position: number;

  private constructor(store: Store, position: number) {
    this.#store = store;
    this.#position = position;
  }

  static async startNow(store: Store): Promise<EndedBatches> {
    return new EndedBatches(store, await findLastPosition(store));
  }

  /** Those that have ended since the last read. */
  async read(): Promise<EndedBatch[]> {
    const ended: EndedBatch[] = [];
    for (let more = true; more; ) {
      const records = await this.#store.readRecords(null, this.#position, RECORDS_PER_READ);
      for (const { position, type, batch: id } of records) {
        this.#position = position;
        const batch = type === "batch.ended" ? await this.#store.getBatch(id) : null;
        if (batch !== null) ended.push({ position, batch });
      }
      more = records.length === RECORDS_PER_READ;
    }
    return ended;
  }
}

/** By halving: a store may hold millions of records, and positions only rise. */
async function findLastPosition(store: Store): Promise<number> {
  const isBefore = async (position: number): Promise<boolean> =>
    (await store.readRecords(null, position, 1)).length > 0;
  let low = -1;
  let high = 1;
  while (await isBefore(high)) {
    low = high;
    high *= 2;
  }
  // There is a record after `low`, and none after `high`.
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await isBefore(middle)) low = middle;
    else high = middle;
  }
  return high;
}
