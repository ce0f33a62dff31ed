/**
 * One leased chunk in a worker's hands: which items are left, what became of those that ran, and
 * what of that the store does not know yet.
 */
import { type ErrorFacts, PermanentError } from "../core/errors.ts";
import {
  FAILED,
  getOutcome,
  type OutcomeMap,
  PENDING,
  SKIPPED,
  SUCCEEDED,
  setOutcome,
} from "../core/outcome-map.ts";
import type { ReportIntent } from "../core/chunk.ts";
import type { ItemFailure, ItemResult } from "../core/report.ts";
import type { SliceItems } from "../ports/source.ts";
import type { ItemHistory, LeasedChunk, Report } from "../ports/working.ts";
import type { RunFacts } from "./item-context.ts";

const NO_ITEMS: SliceItems = { count: 0, at: () => undefined };
const RESULT_CHARS_MAX = 1_048_576;

export class ChunkRun {
  readonly lease: LeasedChunk;
  /** Complete when the items have been read. */
  facts: RunFacts;
  items: SliceItems = NO_ITEMS;
  /** Its items have been read: it may run. */
  arrived = false;
  readonly count: number;
  readonly #outcomes: OutcomeMap;
  readonly #histories: ReadonlyMap<number, ItemHistory> | null;
  #next = 0;
  #failures: ItemFailure[] = [];
  #results: ItemResult[] = [];
  /** Outcomes and failures since the last report. */
  unreported = 0;
  /** Of those, what the report on its way tells. */
  #reporting = 0;
  reportedAt: number;
  inFlight = 0;
  /** By this process's own monotonic clock. */
  leaseUntil: number;
  /** Its lease is gone: nothing that it did since counts. */
  lost = false;

  constructor(lease: LeasedChunk, leaseUntil: number, now: number) {
    this.lease = lease;
    this.facts = { batch: lease.batch, lane: "", step: lease.step, fence: lease.fence };
    this.count = lease.end - lease.start;
    this.#outcomes = lease.outcomes;
    this.#histories =
      lease.histories.length === 0
        ? null
        : new Map(lease.histories.map((history) => [history.index, history]));
    this.leaseUntil = leaseUntil;
    this.reportedAt = now;
  }

  /** The items are here. */
  arrive(lane: string, items: SliceItems): void {
    this.facts = { ...this.facts, lane };
    this.items = items;
    this.arrived = true;
  }

  /** The next item to run, or -1: finished items and those in back-off are passed over. */
  takeNext(): number {
    while (this.#next < this.count) {
      const index = this.#next++;
      if (getOutcome(this.#outcomes, index) !== PENDING) continue;
      if (this.#histories !== null && (this.#histories.get(index)?.dueInMs ?? 0) > 0) continue;
      return index;
    }
    return -1;
  }

  /** How many items may still be started, at most. */
  get unstarted(): number {
    return this.count - this.#next;
  }

  /** Nothing is left to start and nothing runs. */
  get finished(): boolean {
    return this.#next >= this.count && this.inFlight === 0;
  }

  /** Starts no further item. */
  skipRest(): void {
    this.#next = this.count;
  }

  /**
   * Lets go of the items. What is dropped here lives on for a while as garbage that only a full
   * collection finds, and the items are nearly all of its weight.
   */
  release(): void {
    this.items.release?.();
    this.items = NO_ITEMS;
  }

  isPending(index: number): boolean {
    return getOutcome(this.#outcomes, index) === PENDING;
  }

  countAttempts(index: number): number {
    return this.#histories?.get(index)?.attempts ?? 0;
  }

  countDeaths(index: number): number {
    return this.#histories?.get(index)?.deaths ?? 0;
  }

  succeed(index: number, key: string | null = null, value?: unknown): void {
    if (value !== undefined) {
      this.#results.push({ index, key, value: serializeResult(value) });
    }
    setOutcome(this.#outcomes, index, SUCCEEDED);
    this.unreported++;
  }

  skip(index: number): void {
    setOutcome(this.#outcomes, index, SKIPPED);
    this.unreported++;
  }

  fail(
    index: number,
    key: string | null,
    attempts: number,
    { errorClass, code, message }: ErrorFacts,
    retryInMs: number | null,
  ): void {
    this.#failures.push({ index, key, attempts, errorClass, code, message, retryInMs });
    if (retryInMs === null) setOutcome(this.#outcomes, index, FAILED);
    this.unreported++;
  }

  /** What the store is to be told; `markReported` follows when it has been. */
  makeReport(intent: ReportIntent, starting: readonly number[] = []): Report {
    const { batch, step, chunk, fence } = this.lease;
    this.#reporting = this.unreported;
    return {
      batch,
      step,
      chunk,
      fence,
      // Copies, as items go on finishing while the store is being told; not so when all are done.
      outcomes: this.finished ? this.#outcomes : new Uint8Array(this.#outcomes),
      failures: [...this.#failures],
      results: [...this.#results],
      starting,
      intent,
    };
  }

  markReported(report: Report, now: number): void {
    this.#failures = this.#failures.slice(report.failures.length);
    this.#results = this.#results.slice(report.results.length);
    this.unreported -= this.#reporting;
    this.reportedAt = now;
  }
}

function serializeResult(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw badResult(`its result cannot be written as JSON: ${(error as Error).message}`);
  }
  if (text === undefined)
    throw badResult(`its result is a ${typeof value}, which JSON does not have`);
  if (text.length > RESULT_CHARS_MAX) {
    throw badResult(
      `its result has ${text.length} characters, over the limit of ${RESULT_CHARS_MAX}`,
    );
  }
  return text;
}

function badResult(message: string): PermanentError {
  return new PermanentError(
    `${message}; return plain data or nothing, and keep large values elsewhere`,
    { code: "BAD_RESULT" },
  );
}
