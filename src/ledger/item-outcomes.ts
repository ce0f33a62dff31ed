/**
 * What became of each item of a step, as its records say, in two bits an item. The bits are held in
 * pages that are made when an item of theirs appears, so that a forged number costs a page and not
 * the memory for all items below it.
 */
import {
  clearOutcome,
  createOutcomeMap,
  getOutcome,
  type OutcomeCode,
  type OutcomeMap,
  PENDING,
  setOutcome,
} from "../core/outcome-map.ts";

const PAGE_ITEMS = 65_536;

export class ItemOutcomes {
  readonly #pages = new Map<number, OutcomeMap>();
  /** Most records are about neighbours of the item before. */
  #page: OutcomeMap = createOutcomeMap(PAGE_ITEMS);
  #number = -1;
  #highest = -1;

  /** The highest item that has a record; -1 before the first. */
  get highest(): number {
    return this.#highest;
  }

  get(item: number): OutcomeCode {
    return getOutcome(this.#open(item), item % PAGE_ITEMS);
  }

  /** Also in the place of another one, when it goes back to work. */
  set(item: number, outcome: OutcomeCode): void {
    const page = this.#open(item);
    clearOutcome(page, item % PAGE_ITEMS);
    if (outcome !== PENDING) setOutcome(page, item % PAGE_ITEMS, outcome);
  }

  #open(item: number): OutcomeMap {
    if (item > this.#highest) this.#highest = item;
    const number = Math.floor(item / PAGE_ITEMS);
    if (number === this.#number) return this.#page;
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = createOutcomeMap(PAGE_ITEMS);
      this.#pages.set(number, page);
    }
    this.#page = page;
    this.#number = number;
    return page;
  }
}
