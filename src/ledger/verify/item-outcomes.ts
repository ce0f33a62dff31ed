/**
 * The outcome of each item of a step, by its records: two bits an item, and one bit for whether it
 * has any record. The bits are in small pages that are allocated on demand, so a forged number
 * costs one page and not the memory for all items below it.
 */
import {
  clearOutcome,
  createOutcomeMap,
  getOutcome,
  type OutcomeCode,
  type OutcomeMap,
  PENDING,
  setOutcome,
} from "../../core/items/outcome-map.ts";

const PAGE_ITEMS = 1_024;

interface Page {
  readonly outcomes: OutcomeMap;
  readonly seen: Uint8Array;
}

export class ItemOutcomes {
  readonly #pages = new Map<number, Page>();
  /** Most records are about neighbours of the item before. */
  #page: Page = makePage();
  #number = -1;
  #highest = -1;

  /** The highest item that has a record; -1 before the first. */
  get highest(): number {
    return this.#highest;
  }

  get(item: number): OutcomeCode {
    return getOutcome(this.#open(item).outcomes, item % PAGE_ITEMS);
  }

  isSeen(item: number): boolean {
    const at = item % PAGE_ITEMS;
    return ((this.#open(item).seen[at >> 3] as number) & (1 << (at & 7))) !== 0;
  }

  see(item: number): void {
    const { seen } = this.#open(item);
    const at = item % PAGE_ITEMS;
    seen[at >> 3] = (seen[at >> 3] as number) | (1 << (at & 7));
  }

  /** Also replaces an outcome, after a redrive. */
  set(item: number, outcome: OutcomeCode): void {
    const page = this.#open(item).outcomes;
    clearOutcome(page, item % PAGE_ITEMS);
    if (outcome !== PENDING) setOutcome(page, item % PAGE_ITEMS, outcome);
  }

  #open(item: number): Page {
    if (item > this.#highest) this.#highest = item;
    const number = Math.floor(item / PAGE_ITEMS);
    if (number === this.#number) return this.#page;
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = makePage();
      this.#pages.set(number, page);
    }
    this.#page = page;
    this.#number = number;
    return page;
  }
}

function makePage(): Page {
  return { outcomes: createOutcomeMap(PAGE_ITEMS), seen: new Uint8Array(PAGE_ITEMS >> 3) };
}
