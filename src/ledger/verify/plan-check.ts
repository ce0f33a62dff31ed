/**
 * Completeness: what a batch's records say together. Its plan, the counts of its steps and its
 * ending must agree. With a ledger of items, each item has exactly one outcome in each drive, and
 * they match the counts. Everything here follows from the data of records alone.
 */
import { ENDED_STATES, ITEMS_RECORDED } from "../../core/batch/batch.ts";
import { type Counts, isConserved } from "../../core/batch/counts.ts";
import { addCounts } from "../../core/batch/step.ts";
import { ensure, refuse } from "./broken-export.ts";
import type { ItemsChange } from "../format/items-change.ts";
import { hasMembers, isCount, isJsonObject, type JsonObject, show } from "../format/strict-json.ts";
import { StepAccount } from "./step-account.ts";

const COUNTS = ["planned", "succeeded", "skipped", "failed", "cancelled", "pending"] as const;
/** More steps than any pipeline has: a forged number must not fill the memory. */
const STEPS_MAX = 10_000;

export class PlanCheck {
  lane = "";
  drive = 1;
  /** How the batch ended, unless it was reopened since. */
  ended: string | null = null;
  /** Its batch keeps a ledger of items. */
  hasItems = false;
  /** How many records' details were erased, by the records of erasing. */
  erased = 0;
  readonly #steps = new Map<number, StepAccount>();
  #current = 0;
  #slicing: number | null = null;
  /** Items that were redriven since the last record, and the drive that they name. */
  #redriven = { items: 0, drive: 0 };
  #typeBefore = "";

  /** Checks the next record of the chain. */
  take(seq: number, type: string, data: JsonObject): void {
    ensure((seq === 1) === (type === "batch.submitted"), "a batch begins with batch.submitted");
    const mayFollowRedrive = type === ITEMS_RECORDED || type === "dead_letters.redriven";
    ensure(
      mayFollowRedrive || this.#redriven.items === 0,
      "items went back to work without a redrive",
    );
    if (Object.hasOwn(this.#takers, type)) this.#takers[type]?.(data);
    this.#typeBefore = type;
  }

  /** Whether the last record may contain a change of items in the current state. */
  admitChange({ drive }: ItemsChange): void {
    ensure(this.hasItems, "its batch keeps no ledger of items");
    if (drive !== null) return;
    ensure(this.#redriven.items === 0, "items went back to work without a redrive");
    ensure(this.ended === null, "items have records after the batch's end");
  }

  /** Checks a state of an item, from the block of the last record. */
  takeState(step: number, item: number, drive: number): void {
    this.#ensureDrive(item, drive);
    this.#find(step).see(item);
  }

  /** Checks what the last record says about items; the states of its block come before that. */
  takeChange({ step, succeeded, skipped, failed, retried, redriven, drive }: ItemsChange): void {
    const account = this.#find(step);
    if (drive !== null) {
      for (const range of redriven) this.#redriven.items += account.redrive(range);
      ensure(drive > this.drive, `drive ${drive} does not come after drive ${this.drive}`);
      this.#redriven.drive = drive;
      return;
    }
    for (const { item, drive: of = 1 } of [...retried, ...failed]) {
      this.#ensureDrive(item, of);
      account.note(item);
    }
    for (const range of succeeded) account.settle(range, "succeeded");
    for (const range of skipped) account.settle(range, "skipped");
    for (const { item } of failed) account.settle([item, item], "failed");
  }

  #ensureDrive(item: number, drive: number): void {
    if (drive > this.drive) {
      refuse(`item ${item} names drive ${drive}, the batch is in ${this.drive}`);
    }
  }

  readonly #takers: { readonly [type: string]: (data: JsonObject) => void } = {
    "batch.submitted": ({ lane, itemLedger }) => {
      ensure(typeof lane === "string", "the lane is not a text");
      this.lane = lane;
      this.hasItems = itemLedger === true;
    },
    "batch.started": ({ step, drive }) => {
      this.#current = readCount(step, "step");
      ensure(drive === this.drive, `it starts in drive ${show(drive)}, not in ${this.drive}`);
      ensure(this.ended === null, "it starts after its end and was not reopened");
    },
    "slicing.started": ({ step }) => {
      this.#current = readCount(step, "step");
      this.#slicing = this.#current;
      this.#find(this.#current);
    },
    "slicing.finished": ({ step, items }) => {
      const account = this.#find(readCount(step, "step"));
      const planned = readCount(items, "items");
      // An open batch is recorded as planned without items, and grows until it is sealed.
      if (account.step > 0 || planned > 0) account.plan(planned);
      this.#slicing = null;
    },
    "slicing.aborted": () => {
      // A part of the plan may exist.
      if (this.#slicing !== null) this.#find(this.#slicing).planned = null;
      this.#slicing = null;
    },
    "batch.sealed": ({ items }) => this.#find(this.#current).plan(readCount(items, "items")),
    "dead_letters.redriven": ({ drive, items }) => {
      const next = readCount(drive, "drive");
      ensure(next > this.drive, `drive ${next} does not come after drive ${this.drive}`);
      this.drive = next;
      const said = readCount(items, "items");
      if (!this.hasItems) return;
      const { items: seen, drive: opened } = this.#redriven;
      ensure(said === seen, `${said} items went back to work, but their records say ${seen}`);
      ensure(seen === 0 || next === opened, `items went back to work in drive ${opened}`);
      this.#redriven = { items: 0, drive: 0 };
    },
    "batch.reopened": ({ step, drive }) => {
      ensure(this.ended !== null, "it was reopened without having ended");
      ensure(drive === this.drive, `it was reopened in drive ${show(drive)}`);
      this.ended = null;
      this.#current = readCount(step, "step");
      for (const account of this.#steps.values()) {
        if (account.step >= this.#current) account.hasEnded = false;
      }
    },
    "details.erased": ({ records }) => void (this.erased += readCount(records, "records")),
    "step.ended": ({ step, counts }) => this.#endStep(readCount(step, "step"), readCounts(counts)),
    "batch.ended": ({ state, drive, counts }) => {
      ensure(drive === this.drive, `it ended in drive ${show(drive)}, not in ${this.drive}`);
      ensure(this.ended === null, "it ended twice and was not reopened between");
      const isState = (ENDED_STATES as readonly unknown[]).includes(state);
      ensure(isState, "its ending has an unknown state");
      this.#endBatch(state as string, readCounts(counts));
      this.ended = state as string;
    },
  };

  #endStep(step: number, counts: Counts): void {
    ensure(this.ended === null, `step ${step} ended after the batch did`);
    const account = this.#find(step);
    if (account.planned !== null) {
      ensure(
        counts.planned === account.planned,
        `step ${step} ended with ${counts.planned} items and was planned with ${account.planned}`,
      );
    } else if (counts.planned > 0 || step > 0) account.plan(counts.planned);
    if (this.hasItems) account.compare(counts);
    const before = account.lastCounts;
    ensure(
      before === null || (counts.succeeded >= before.succeeded && counts.skipped >= before.skipped),
      `step ${step} ended before with more that succeeded or were skipped`,
    );
    account.lastCounts = counts;
    account.hasEnded = true;
  }

  #endBatch(state: string, counts: Counts): void {
    const { failed, cancelled } = counts;
    const wentThrough = state === "succeeded" || state === "completed_with_errors";
    ensure(state !== "succeeded" || failed === 0, `it succeeded with ${failed} failures`);
    ensure(
      state !== "completed_with_errors" || failed > 0,
      "it completed with errors, but counts no failures",
    );
    ensure(
      !wentThrough || cancelled === 0,
      `it ran to its end, but ${cancelled} items were cancelled`,
    );
    this.#comparePlans(counts, wentThrough);
    this.#compareSteps(counts, wentThrough);
    if (!this.hasItems) return;
    for (const name of ["succeeded", "skipped", "failed"] as const) {
      let recorded = 0;
      for (const account of this.#steps.values()) recorded += account[name];
      ensure(
        counts[name] === recorded,
        `it ended with ${counts[name]} ${name}, its items' records say ${recorded}`,
      );
    }
  }

  /** Nothing that was planned is missing; a batch that went to its end did so in every step. */
  #comparePlans(counts: Counts, wentThrough: boolean): void {
    let planned = 0;
    for (const account of this.#steps.values()) {
      planned += account.planned ?? 0;
      if (!wentThrough) continue;
      const { step, lastCounts } = account;
      ensure(lastCounts !== null, `it ran to its end, but step ${step} did not`);
      // A step with nothing to do after a redrive does not end again.
      ensure(
        lastCounts.planned === (account.planned ?? lastCounts.planned),
        `it ran to its end, but step ${step} grew to ${account.planned} items after it ended`,
      );
      if (this.hasItems) account.compare(lastCounts);
    }
    ensure(
      counts.planned >= planned,
      `it ended with ${counts.planned} items, and ${planned} were planned`,
    );
  }

  /**
   * The ending counts what the steps count; a batch that stopped early may have uncounted steps.
   */
  #compareSteps(counts: Counts, wentThrough: boolean): void {
    const steps = addCounts(
      [...this.#steps.values()].flatMap(({ lastCounts }) => lastCounts ?? []),
    );
    // Only a batch that was running has just counted its step.
    const isCounted = this.#typeBefore === "batch.drained";
    for (const name of COUNTS) {
      const isKept = name === "succeeded" || name === "skipped";
      const mustEqual = wentThrough || (isCounted && isKept);
      const holds = mustEqual
        ? counts[name] === steps[name]
        : !isKept || counts[name] >= steps[name];
      ensure(
        holds,
        `it ended with ${counts[name]} ${name}, its steps with ${steps[name]} together`,
      );
    }
  }

  #find(step: number): StepAccount {
    const known = this.#steps.get(step);
    if (known !== undefined) return known;
    ensure(step < STEPS_MAX, `there is no step ${step}`);
    const account = new StepAccount(step);
    this.#steps.set(step, account);
    return account;
  }
}

function readCount(value: unknown, name: string): number {
  ensure(isCount(value), `its "${name}" is not a whole number`);
  return value;
}

function readCounts(value: unknown): Counts {
  ensure(isJsonObject(value) && hasMembers(value, COUNTS), "its counts are malformed");
  for (const name of COUNTS) readCount(value[name], name);
  const counts = value as unknown as Counts;
  ensure(isConserved(counts), "its counts do not add up");
  ensure(counts.pending === 0, `it ended with ${counts.pending} items pending`);
  return counts;
}
