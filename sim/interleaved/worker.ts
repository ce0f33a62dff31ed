/** A worker as the stores see it: what it holds, and what it says about it. */
import type { ItemContent } from "../../src/core/items/report.ts";
import type { Random } from "../../src/ports/random.ts";
import {
  type LeasedChunk,
  type LeaseRef,
  nameLease,
  type Report,
  type WorkResult,
} from "../../src/ports/store/worker-store.ts";
import { toMap, toWords, type Word } from "../../test/support/outcome-words.ts";
import { pick } from "./schedule.ts";

export interface Held {
  readonly lease: LeasedChunk;
  words: Word[];
  /** Contents that it claimed, by position. */
  readonly claimed: Map<number, string>;
}

/** What happens to the items of a report. */
export const DEEDS = ["succeed", "fail", "despair", "retry", "leave", "mixed"] as const;
export type Deed = (typeof DEEDS)[number];
const SINGLE = DEEDS.filter((deed) => deed !== "mixed");
const RETRY_MS = 5;

export class Worker {
  readonly number: number;
  held: Held[] = [];
  /** Leases that ended: a slow process may still report on them. */
  readonly gone: Held[] = [];

  constructor(number: number) {
    this.number = number;
  }

  take(answer: WorkResult, reports: readonly Report[]): void {
    for (const [nth, report] of reports.entries()) this.#learn(report, answer.reports[nth]);
    for (const lease of answer.leased) this.accept(lease);
  }

  accept(lease: LeasedChunk): void {
    const words = toWords(lease.outcomes, lease.end - lease.start);
    this.held.push({ lease, words, claimed: new Map() });
  }

  #learn(report: Report, result: WorkResult["reports"][number] | undefined): void {
    const held = this.held.find(({ lease }) => nameLease(lease) === nameLease(report));
    if (held === undefined) return;
    if (result === "kept") {
      held.words = toWords(report.outcomes, held.words.length);
      return;
    }
    this.held = this.held.filter((one) => one !== held);
    this.gone.push(held);
  }
}

export function refer({ batch, step, chunk, fence }: LeaseRef): LeaseRef {
  return { batch, step, chunk, fence };
}

export function composeReport(
  random: Random,
  { lease, words: known, claimed }: Held,
  deed: Deed,
  intent: Report["intent"],
): Report {
  const words = [...known];
  const failures: Report["failures"][number][] = [];
  const results: Report["results"][number][] = [];
  for (const [index, word] of known.entries()) {
    if (word !== "pending") continue;
    const one = deed === "mixed" ? pick(random, SINGLE) : deed;
    const item = lease.start + index;
    if (one === "succeed") {
      words[index] = "succeeded";
      if (item % 2 === 0) results.push({ index, key: null, value: `"${lease.fence}"` });
    }
    if (one === "fail" || one === "despair") words[index] = "failed";
    if (one === "leave" || one === "succeed") continue;
    const errorClass = one === "fail" ? "permanent" : "transient";
    const retryInMs = one === "retry" ? RETRY_MS : null;
    const error = { errorClass, code: "E", message: "no" } as const;
    failures.push({ index, key: `key ${item}`, attempts: 1, ...error, retryInMs });
  }
  const contents: ItemContent[] = [];
  for (const [index, content] of claimed) {
    if (words[index] === "succeeded") contents.push({ index, content });
  }
  return {
    ...refer(lease),
    outcomes: toMap(words),
    failures,
    results,
    contents,
    deferrals: [],
    checkpoints: [],
    messages: [],
    commits: [],
    abandoned: [],
    limitWait: null,
    starting: [],
    intent,
    busyMs: 3,
  };
}
