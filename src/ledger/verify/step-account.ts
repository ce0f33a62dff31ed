/**
 * What an export says about one step: its plan, the outcomes of its items, and the counts of its
 * ending.
 */
import type { Counts } from "../../core/batch/counts.ts";
import {
  FAILED,
  type OutcomeCode,
  PENDING,
  SKIPPED,
  SUCCEEDED,
} from "../../core/items/outcome-map.ts";
import { ensure, refuse } from "./broken-export.ts";
import { ItemOutcomes } from "./item-outcomes.ts";
import type { Range } from "../format/items-change.ts";

export type ItemOutcome = "succeeded" | "skipped" | "failed";

const CODES = { succeeded: SUCCEEDED, skipped: SKIPPED, failed: FAILED } as const;

export class StepAccount {
  readonly step: number;
  /** Null while it may still grow: its batch is open, or its plan was never completed. */
  planned: number | null = null;
  hasEnded = false;
  lastCounts: Counts | null = null;
  succeeded = 0;
  skipped = 0;
  failed = 0;
  readonly #outcomes = new ItemOutcomes();

  constructor(step: number) {
    this.step = step;
  }

  /** A plan never shrinks, and no item with a record is outside of it. */
  plan(items: number): void {
    const { step } = this;
    ensure(
      this.planned === null || items >= this.planned,
      `step ${step} was planned with ${this.planned} items and is planned with ${items}`,
    );
    ensure(
      this.#outcomes.highest < items,
      `step ${step} has ${items} items, but there was a record of item ${this.#outcomes.highest}`,
    );
    this.planned = items;
  }

  /** Something is recorded about an item without an outcome: a state, or a failed attempt. */
  note(item: number): void {
    const { step } = this;
    if (this.hasEnded) {
      refuse(`step ${step} has ended, and item ${item} of it has a record after that`);
    }
    if (this.#getPlanned(item) !== PENDING) {
      refuse(`item ${item} of step ${step} already had its outcome`);
    }
  }

  /** A state of an item. */
  see(item: number): void {
    this.note(item);
    this.#outcomes.see(item);
  }

  settle([first, last]: Range, outcome: ItemOutcome): void {
    for (let item = first; item <= last; item++) {
      this.note(item);
      // A failed item may never have been read: its worker died, or no worker leased it.
      if (outcome !== "failed" && !this.#outcomes.isSeen(item)) {
        refuse(`item ${item} of step ${this.step} ${describe(outcome)}, but has no record`);
      }
      this.#outcomes.set(item, CODES[outcome]);
    }
    this[outcome] += last - first + 1;
  }

  /** Redrives failed items; returns how many. */
  redrive([first, last]: Range): number {
    const { step } = this;
    for (let item = first; item <= last; item++) {
      if (this.#getPlanned(item) !== FAILED) {
        refuse(`item ${item} of step ${step} goes back to work and had not failed`);
      }
      this.#outcomes.set(item, PENDING);
    }
    const items = last - first + 1;
    this.failed -= items;
    return items;
  }

  #getPlanned(item: number): OutcomeCode {
    const { step, planned } = this;
    if (planned !== null && item >= planned) {
      refuse(`item ${item} is not in the plan: step ${step} has ${planned} items`);
    }
    return this.#outcomes.get(item);
  }

  /** Compares the counts of its ending with the outcomes of its items. */
  compare(counts: Counts): void {
    for (const name of ["succeeded", "skipped", "failed"] as const) {
      ensure(
        counts[name] === this[name],
        `step ${this.step} ended with ${counts[name]} ${name}, its items' records say ${this[name]}`,
      );
    }
  }
}

function describe(outcome: ItemOutcome): string {
  return outcome === "skipped" ? "was skipped" : outcome;
}
