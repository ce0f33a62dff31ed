/** Queries of the reference model. */
import { isEnded } from "../../core/batch/batch.ts";
import { cancelPending, type Counts } from "../../core/batch/counts.ts";
import { collectItems, findOutcomeCode, type ItemNumbers } from "../../core/items/outcome-list.ts";
import { countOutcomes, getOutcome } from "../../core/items/outcome-map.ts";
import { matchesDeadLetter } from "../../core/items/redrive.ts";
import type { TrackedItem } from "../../core/items/tracked-item.ts";
import { addCounts } from "../../core/batch/step.ts";
import type { RestFacts } from "../../core/batch/why.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import {
  type BatchFilter,
  type DeadLetter,
  type ItemPage,
  type ItemPlace,
  type LaneView,
  type DeadLetterPage,
  OUTCOME_WORDS,
  type Recount,
  type ResultPage,
  type StoredRecord,
  type StoredResult,
  type WaitingFacts,
} from "../../ports/store/query-store.ts";
import type { Lanes } from "./lanes.ts";
import { listLetters } from "./batch-lifecycle.ts";
import type { ConcurrencyPermits } from "./concurrency-permits.ts";
import {
  type Batch,
  type Chunk,
  countAll,
  currentStep,
  findPause,
  hasWorker,
  namePause,
  type State,
  type Step,
  takeSnapshot,
} from "./state.ts";

export class Queries {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #lanes: Lanes;
  readonly #permits: ConcurrencyPermits;

  constructor(state: State, clock: Clock, lanes: Lanes, permits: ConcurrencyPermits) {
    this.#state = state;
    this.#clock = clock;
    this.#lanes = lanes;
    this.#permits = permits;
  }

  listBatches({ pipeline, lane, states, limit }: BatchFilter): BatchSnapshot[] {
    return [...this.#state.batches.values()]
      .toReversed()
      .filter(({ submission }) => pipeline === undefined || submission.pipeline === pipeline)
      .filter(({ submission }) => lane === undefined || submission.lane === lane)
      .filter((batch) => states === undefined || states.includes(batch.state))
      .slice(0, limit)
      .map((batch) => takeSnapshot(this.#state, batch));
  }

  listUnsliced(pipeline: string, limit: number): BatchSnapshot[] {
    return [...this.#state.batches.values()]
      .filter(
        (batch) =>
          (batch.state === "submitted" || batch.state === "slicing") &&
          batch.active &&
          batch.cancel === null &&
          batch.submission.pipeline === pipeline &&
          findPause(this.#state, batch) === null,
      )
      .slice(0, limit)
      .map((batch) => takeSnapshot(this.#state, batch));
  }

  listLanes(): LaneView[] {
    const unfinished = [...this.#state.batches.values()].filter(({ state }) => !isEnded(state));
    const lanes = Map.groupBy(unfinished, ({ submission }) => submission.lane);
    return [...lanes]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([lane, batches]) => ({
        lane,
        policy: this.#lanes.getPolicy(lane),
        pause: this.#state.pauses.get(namePause({ scope: "lane", name: lane })) ?? null,
        holder: this.#lanes.findHolder(lane)?.submission.id ?? null,
        waiting: this.#lanes.listWaiting(lane).length,
        parked: batches.filter(({ parked }) => parked !== null).length,
      }));
  }

  readManifests(batch: Batch, step: number, fromChunk: number, toChunk: number): Uint8Array[] {
    const chunks = batch.steps[step]?.chunks ?? [];
    return chunks
      .slice(fromChunk, toChunk)
      .map(({ manifest }) => manifest)
      .filter((manifest) => manifest !== null);
  }

  readResults(batch: Batch, { step, afterItem, limit, sinceDrive }: ResultPage): StoredResult[] {
    return [...(batch.steps[step]?.results.values() ?? [])]
      .filter(({ item, drive }) => item > afterItem && drive >= sinceDrive)
      .toSorted((a, b) => a.item - b.item)
      .slice(0, limit)
      .map(({ item, key, value }) => ({ step, item, key, value }));
  }

  readDeadLetters(batch: Batch, { step, afterItem, limit, filter }: DeadLetterPage): DeadLetter[] {
    const known = batch.steps[step];
    if (known === undefined) return [];
    return listLetters(known)
      .map(({ chunk, item }) => describeLetter(step, known, chunk, item))
      .filter((letter) => letter !== null)
      .filter((letter) => letter.item > afterItem && matchesDeadLetter(filter, letter))
      .slice(0, limit);
  }

  listItems(batch: Batch, { step, outcome, ...page }: ItemPage): ItemNumbers {
    const code = findOutcomeCode(outcome, isEnded(batch.state));
    const chunks = (batch.steps[step]?.chunks ?? []).filter(({ end }) => end > page.afterItem + 1);
    return code === null ? { items: [], next: null } : collectItems(chunks, code, page);
  }

  findItem(batch: Batch, step: number, item: number): ItemPlace | null {
    const known = batch.steps[step];
    const at = known?.chunks.findIndex(({ start, end }) => item >= start && item < end) ?? -1;
    const chunk = known?.chunks[at];
    if (known === undefined || chunk === undefined) return null;
    const index = item - chunk.start;
    const tracked = chunk.tracked.get(index);
    return {
      chunk: at,
      start: chunk.start,
      end: chunk.end,
      locator: chunk.locator,
      state: chunk.state,
      outcome: OUTCOME_WORDS[getOutcome(chunk.outcomes, index)],
      override: known.overrides.get(item) ?? null,
      checkpoint: tracked?.checkpoint ?? null,
      letter: tracked?.dead === true ? describeLetter(step, known, chunk, tracked) : null,
    };
  }

  readWaiting(batch: Batch, chunksMax: number): WaitingFacts {
    const now = this.#clock.monotonicMs();
    const { pipeline, version, lane } = batch.submission;
    const step = currentStep(batch);
    const queue = this.#lanes.listWaiting(lane);
    const holder = batch.active ? undefined : this.#lanes.findHolder(lane);
    const waiting = step.chunks.filter(({ state }) => state === "waiting");
    const behind = Math.max(0, queue.indexOf(batch));
    const canary = step.canaryChunks ?? Number.POSITIVE_INFINITY;
    const unsettled = [...step.chunks.entries()].filter(([, { state }]) => state !== "settled");
    return {
      batch: {
        state: batch.state,
        pipeline,
        version,
        lane,
        active: batch.active,
        laneHolder: holder?.submission.id ?? null,
        ahead: batch.active ? 0 : behind + (holder === undefined ? 0 : 1),
        parked: batch.parked?.message ?? null,
        pause: findPause(this.#state, batch),
        cancelMode: batch.cancel?.mode ?? null,
        hasWorker: hasWorker(this.#state, now, batch),
        sealed: batch.sealed,
        pending: countAll(batch).pending,
        leased: step.chunks.filter(({ state }) => state === "leased").length,
        inCanary: step.canaryChunks !== null,
        nextDueInMs: step.chunks.some(({ state }, at) => state === "planned" && at < canary)
          ? 0
          : computeNextDue(waiting, now),
        nextRest: findNextRest(waiting),
        cap: this.#permits.findFull(batch, now),
      },
      chunks: unsettled
        .toSorted(([a, one], [b, two]) => compareTurn(one, two) || a - b)
        .slice(0, chunksMax)
        .map(([at, { state, worker, dueAt, limitWait }]) => ({
          chunk: at,
          state,
          worker: state === "leased" ? `${worker}` : null,
          dueInMs: state === "waiting" ? Math.max(0, dueAt - now) : 0,
          rest: state === "waiting" ? limitWait : null,
          behindCanary: state === "planned" && at >= canary,
        })),
    };
  }

  readRecords(batch: string | null, afterPosition: number, limit: number): StoredRecord[] {
    return this.#state.records
      .filter(({ position }) => position > afterPosition)
      .filter((record) => batch === null || record.batch === batch)
      .slice(0, limit);
  }

  readLastPosition(): number {
    return this.#state.records.at(-1)?.position ?? 0;
  }

  recount(batch: Batch): Recount {
    const recounted = addCounts(batch.steps.map(recountStep));
    return {
      counters: countAll(batch),
      recounted: isEnded(batch.state) ? cancelPending(recounted) : recounted,
    };
  }
}

function recountStep({ chunks }: Step): Counts {
  const sum = { planned: 0, succeeded: 0, skipped: 0, failed: 0 };
  for (const { start, end, outcomes } of chunks) {
    const counted = countOutcomes(outcomes);
    sum.planned += end - start;
    sum.succeeded += counted.succeeded;
    sum.skipped += counted.skipped;
    sum.failed += counted.failed;
  }
  const pending = sum.planned - sum.succeeded - sum.skipped - sum.failed;
  return { ...sum, cancelled: 0, pending };
}

function describeLetter(
  number: number,
  step: Step,
  chunk: Chunk,
  { index, key, attempts, deaths, error, drive }: TrackedItem,
): DeadLetter | null {
  if (error === null) return null;
  const item = chunk.start + index;
  return {
    step: number,
    item,
    key,
    attempts,
    deaths,
    ...error,
    failedAt: chunk.failedAt.get(index) as number,
    drive,
    discarded: step.discarded.get(item) ?? null,
    edited: step.overrides.has(item),
  };
}

function computeNextDue(waiting: readonly Chunk[], now: number): number | null {
  if (waiting.length === 0) return null;
  return Math.max(0, Math.min(...waiting.map(({ dueAt }) => dueAt)) - now);
}

/** The limit that the next chunk waits for. */
function findNextRest(waiting: readonly Chunk[]): RestFacts | null {
  const [next] = waiting.toSorted((a, b) => a.dueAt - b.dueAt);
  return next?.limitWait ?? null;
}

/** Leased chunks, then waiting ones by due time, then those that never ran. */
function compareTurn(a: Chunk, b: Chunk): number {
  const rank = { leased: 0, waiting: 1, planned: 2, cancelled: 3, settled: 4 };
  return rank[a.state] - rank[b.state] || (a.state === "waiting" ? a.dueAt - b.dueAt : 0);
}
