/** What an export says about one step: its plan, its items' records, and the counts that it ended with. */
import type { Counts } from "../core/counts.ts";
import { FAILED, PENDING, SKIPPED, SUCCEEDED } from "../core/outcome-map.ts";
import { ensure } from "./broken-export.ts";
import { ItemOutcomes } from "./item-outcomes.ts";
import type { FinalState } from "./item-record.ts";

const CODES = { succeeded: SUCCEEDED, skipped: SKIPPED, failed: FAILED } as const;

export class StepAccount {
  readonly step: number;
  /** Null while it may still grow: its batch is open, or it was never planned to the end. */
  planned: number | null = null;
  hasEnded = false;
  lastCounts: Counts | null = null;
  /** Failures that went back to work and have no new word yet. */
  redriven = 0;
  succeeded = 0;
  skipped = 0;
  /** Those that were redriven since are among them: the records do not say which those are. */
  failed = 0;
  readonly #outcomes = new ItemOutcomes();

  constructor(step: number) {
    this.step = step;
  }

  /** A plan never shrinks, and no item that has a record lies outside of it. */
  plan(items: number): void {
    const { step } = this;
    ensure(
      this.planned === null || items >= this.planned,
      `step ${step} was planned with ${this.planned} items and is planned with ${items}`,
    );
    ensure(
      this.#outcomes.highest < items,
      `step ${step} has ${items} items, and there was a record of item ${this.#outcomes.highest}`,
    );
    this.planned = items;
  }

  /** A record of an item; `mayRepeat` says whether some failure may have gone back to work. */
  note(item: number, final: FinalState | null, mayRepeat: boolean): "new" | "again" | "open" {
    const { step, planned } = this;
    ensure(
      !this.hasEnded,
      `step ${step} has ended, and item ${item} of it has a record after that`,
    );
    ensure(
      planned === null || item < planned,
      `item ${item} is not in the plan: step ${step} has ${planned} items`,
    );
    const before = this.#outcomes.get(item);
    ensure(
      before === PENDING || (before === FAILED && mayRepeat),
      `item ${item} of step ${step} had its outcome already`,
    );
    if (final === null) return "open";
    this.#outcomes.set(item, CODES[final]);
    if (before === FAILED) this.failed--;
    this[final]++;
    return before === FAILED ? "again" : "new";
  }

  /** Holds the counts of its ending against its records; `elsewhere` may be redriven here or in others. */
  compare(counts: Counts, elsewhere: number): void {
    const { step, succeeded, skipped, failed, redriven } = this;
    const what = `step ${step} ended with`;
    const have = "its items' records say";
    ensure(
      counts.succeeded === succeeded,
      `${what} ${counts.succeeded} succeeded, ${have} ${succeeded}`,
    );
    ensure(counts.skipped === skipped, `${what} ${counts.skipped} skipped, ${have} ${skipped}`);
    const most = failed - redriven;
    ensure(
      counts.failed <= most && counts.failed >= most - elsewhere,
      `${what} ${counts.failed} failed, ${have} ${most}`,
    );
  }
}
