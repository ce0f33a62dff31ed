/**
 * Lists the items of a step by outcome. Each comes with its value if the batch owns its items and
 * retention has not removed them.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { ItemOutcomeWord } from "../../core/items/outcome-list.ts";
import type { ItemPlace } from "../../ports/store/query-store.ts";
import type { SliceItems } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import { readManifest } from "../reading/manifest.ts";

export type ListedItem = Unnamed<{
  /** The item's number in its step. */
  readonly item: number;
  /** Undefined if only the source has it. */
  readonly value: unknown;
}>;

const PAGE = 1_000;

export async function* listItems(
  store: Store,
  batch: string,
  step: number,
  outcome: ItemOutcomeWord,
): AsyncGenerator<ListedItem, void, void> {
  const read = new OwnedItems(store, batch, step);
  for (let afterItem: number | null = -1; afterItem !== null; ) {
    const page = await store.listItems(batch, { step, outcome, afterItem, limit: PAGE });
    for (const item of page.items) yield { item, value: await read.at(item) };
    afterItem = page.next;
  }
}

/** Reads one chunk at a time, as items come in order. */
class OwnedItems {
  readonly #store: Store;
  readonly #batch: string;
  readonly #step: number;
  #place: ItemPlace | null = null;
  #items: SliceItems | null = null;

  constructor(store: Store, batch: string, step: number) {
    this.#store = store;
    this.#batch = batch;
    this.#step = step;
  }

  async at(item: number): Promise<unknown> {
    if (this.#place === null || item >= this.#place.end) await this.#open(item);
    return this.#items?.at(item - (this.#place?.start ?? 0));
  }

  async #open(item: number): Promise<void> {
    this.#place = await this.#store.findItem(this.#batch, this.#step, item);
    this.#items = null;
    if (this.#place === null || this.#place.locator !== null) return;
    const { chunk } = this.#place;
    const [manifest] = await this.#store.readManifests(this.#batch, this.#step, chunk, chunk + 1);
    this.#items = manifest === undefined ? null : readManifest(manifest);
  }
}
