/**
 * What people do to batches: cancel, pause, move, redrive, and ask why something waits. It needs
 * only a store, so the command line uses it without an engine.
 */
import { userInfo } from "node:os";
import { type Act, isEnded } from "../../core/batch/batch.ts";
import { STOP_MODES, type StopMode } from "../../core/batch/chunk.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { LANE_POLICIES, type LanePolicy } from "../../core/batch/lane.ts";
import type { LimitChange, LimitSetting } from "../../core/limits/limit.ts";
import { redactText } from "../../core/base/redact.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { explainBatch, explainChunk, type Why } from "../../core/batch/why.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type {
  LaneMove,
  LimitRequest,
  PauseScope,
  PruneResult,
  RedriveResult,
} from "../../ports/store/operator-store.ts";
import type { LaneView } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { eraseRecorded } from "../evidence/erasing.ts";
import {
  editDeadLetter,
  type LetterPlace,
  openDeadLetter,
  type OpenedDeadLetter,
} from "./dead-letter.ts";
import { closeKey, type ClosedKey, type Closing, listClosedKeys } from "./key-closing.ts";
import { checkLimit } from "./limit-check.ts";
import { pruneByAge, type RetentionPolicy } from "../conducting/retention.ts";
import { nameRateBucket } from "../pipeline/step-rate.ts";
import { describeRefusal } from "./redrive-refusal.ts";
import { systemRandom } from "../system/system-random.ts";

export interface ActOptions {
  /** Who acts; default the user that runs the process. */
  readonly by?: string;
  readonly why?: string;
}

export interface StopOptions extends ActOptions {
  /** `drain` lets leased chunks finish; `now` tells handlers to stop. */
  readonly mode?: StopMode;
}

/** A batch, or all batches of a lane or of a pipeline. */
export type Target =
  | { readonly batch: string }
  | { readonly lane: string }
  | { readonly pipeline: string };

export interface RedriveOptions extends ActOptions, DeadLetterFilter {
  /** At most this many; default all. */
  readonly ceiling?: number;
  /** Items a second; default all at once. */
  readonly perSecond?: number;
  /** Also what an early end cancelled. */
  readonly withCancelled?: boolean;
  /** Only return what would be done. */
  readonly dryRun?: boolean;
}

type CancelSummary = Unnamed<{
  /** Batches that end because of it, or will when their workers have released them. */
  readonly cancelled: readonly string[];
  /** Batches that had ended before: nothing changed. */
  readonly endedBefore: readonly string[];
}>;

/** Why a batch waits, and what each of its next chunks waits for. */
export interface Explanation extends Why {
  readonly batch: string;
  readonly chunks: readonly (Why & { readonly chunk: number })[];
}

const PAGE = 1_000;
const CHUNKS_EXPLAINED = 20;
const NAME_CHARS_MAX = 256;
const WHY_CHARS_MAX = 2_000;

export class Operator {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(store: Store, clock: Clock, random: Random = systemRandom) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * Requests the end of one batch or of many. A batch has ended `cancelled` when its workers have
   * released it: wait for that with its handle.
   */
  async cancel(target: Target, options: StopOptions = {}): Promise<CancelSummary> {
    const request = { ...readAct(options), mode: readMode(options, "now") };
    const cancelled: string[] = [];
    const endedBefore: string[] = [];
    // Waiting batches first: otherwise the end of a running one would start the next in between.
    for await (const id of this.#listTargets(target, request.mode)) {
      const { kind } = await this.#store.cancel(id, request);
      (kind === "done" ? cancelled : endedBefore).push(id);
    }
    return { cancelled, endedBefore };
  }

  async *#listTargets(target: Target, mode: StopMode): AsyncGenerator<string, void, void> {
    if ("batch" in target) return yield target.batch;
    const filter = await this.checkTarget(target);
    const states = ["submitted", "slicing", "ready", "running"] as const;
    for (const holders of [false, true]) {
      // Batches that are being cancelled stay in the list until their workers release them: look
      // past them.
      for (let limit = PAGE, more = true; more; limit += PAGE) {
        const batches = await this.#store.listBatches({ ...filter, states, limit });
        for (const { id, active, cancel } of batches) {
          if (active !== holders) continue;
          if (cancel === null || (cancel.mode === "drain" && mode === "now")) yield id;
        }
        more = batches.length === limit;
      }
    }
  }

  /**
   * Starts no item of a rate's key until then, in any worker; of two closings the later end counts.
   */
  closeKey(rate: string, key: string, closing: Closing): Promise<void> {
    return closeKey(this.#store, this.#clock, { rate, key }, closing);
  }

  /** Lets a closed key start again; false when it was not closed. */
  openKey(rate: string, key: string): Promise<boolean> {
    return this.#store.openBucket({ bucket: nameRateBucket(rate), key });
  }

  closedKeys(): Promise<readonly ClosedKey[]> {
    return listClosedKeys(this.#store);
  }

  /** Starts nothing more until `resume`; false when it was already paused. */
  async pause(target: Target, options: StopOptions = {}): Promise<boolean> {
    const scope = await this.#readScope(target);
    return this.#store.pause({ ...scope, ...readAct(options), mode: readMode(options, "drain") });
  }

  /** Continues what was paused or parked; false when it was neither. */
  async resume(target: Target, options: ActOptions = {}): Promise<boolean> {
    return this.#store.resume(await this.#readScope(target), readAct(options));
  }

  async #readScope(target: Target): Promise<PauseScope> {
    if ("batch" in target) {
      const batch = await this.#getBatch(target.batch);
      if (!isEnded(batch.state)) return { scope: "batch", name: batch.id };
      throw new SluiceError("WRONG_STATE", `batch ${batch.id} has ended: ${batch.state}`, {
        kind: "batch",
        hint: "Only a batch that has not ended can be paused or resumed.",
      });
    }
    await this.checkTarget(target);
    return "lane" in target
      ? { scope: "lane", name: target.lane }
      : { scope: "pipeline", name: target.pipeline };
  }

  /** Refuses a name that no batch ever had: it is a typing mistake. */
  async checkTarget(
    target: Exclude<Target, { readonly batch: string }>,
  ): Promise<Exclude<Target, { readonly batch: string }>> {
    const known = await this.#store.listBatches({ ...target, limit: 1 });
    if (known.length > 0) return target;
    const what = "lane" in target ? "lane" : "pipeline";
    const name = "lane" in target ? target.lane : target.pipeline;
    const others = await this.#store.listBatches({ limit: PAGE });
    const question = formatDidYouMean(findSimilar(name, new Set(others.map((one) => one[what]))));
    throw new SluiceError(
      "NOT_FOUND",
      `no batch of this store has the ${what} ${JSON.stringify(name)}`,
      { kind: what, hint: question === "" ? "`sluice list` shows all batches." : question },
    );
  }

  async lanes(): Promise<readonly LaneView[]> {
    return this.#store.listLanes();
  }

  /** What a lane does when its first batch cannot run. */
  async setLanePolicy(lane: string, policy: LanePolicy): Promise<void> {
    if (!LANE_POLICIES.includes(policy)) {
      const question = formatDidYouMean(findSimilar(policy, LANE_POLICIES));
      throw new SluiceError("BAD_OPTION", `${JSON.stringify(policy)} is not a lane policy`, {
        field: "policy",
        hint: `${question} The policies are ${LANE_POLICIES.join(", ")}.`.trim(),
      });
    }
    await this.checkTarget({ lane });
    await this.#store.setLanePolicy(lane, policy);
  }

  /** Moves a batch within the queue of its lane. */
  async move(batch: string, move: LaneMove, options: ActOptions = {}): Promise<void> {
    const result = await this.#store.moveInLane(batch, move, readAct(options));
    if (result.kind === "done") return;
    const { state, active } = result.batch;
    const what = isEnded(state) ? `has ended: ${state}` : active ? "has its turn" : "is not there";
    throw new SluiceError(
      "WRONG_STATE",
      active || isEnded(state)
        ? `batch ${batch} ${what}, so it cannot be moved in its lane`
        : `batch ${batch} cannot be moved there: both must wait in the same lane`,
      { kind: "batch", hint: "`sluice lanes` shows who waits." },
    );
  }

  async redrive(
    batch: string,
    options: RedriveOptions = {},
  ): Promise<RedriveResult & { kind: "done" }> {
    const { ceiling = Number.MAX_SAFE_INTEGER, perSecond = null, withCancelled = false } = options;
    const { dryRun = false, step, items, keys, codes, classes } = options;
    checkRate(ceiling, perSecond);
    const filter = dropUndefined({ step, items, keys, codes, classes }) as DeadLetterFilter;
    await this.#checkItems(batch, filter);
    const request = { ...readAct(options), filter, ceiling, perSecond, withCancelled, dryRun };
    const result = await this.#store.redrive(batch, request);
    if (result.kind === "done") return result;
    throw describeRefusal(batch, result.why);
  }

  /** A named item must be a dead letter; a filter may match nothing. */
  async #checkItems(id: string, { items, step }: DeadLetterFilter): Promise<void> {
    if (items === undefined) return;
    const batch = await this.#getBatch(id);
    // Without a step the item is looked up in all steps that have begun, as the filter does.
    const steps = step === undefined ? [...batch.steps.keys()] : [step];
    for (const item of items) {
      const found = await Promise.all(steps.map((at) => this.#store.findItem(id, at, item)));
      const places = found.filter((place) => place !== null);
      const last = places.at(-1);
      if (last === undefined) {
        throw new SluiceError("NOT_FOUND", `batch ${id} has no item ${item}`, {
          kind: "item",
          hint: "`sluice dead` lists the dead letters of a batch.",
        });
      }
      if (places.every(({ letter }) => letter === null)) {
        const outcome =
          isEnded(batch.state) && last.outcome === "pending" ? "cancelled" : last.outcome;
        throw new SluiceError("WRONG_STATE", `item ${item} of batch ${id} is ${outcome}`, {
          kind: "item",
          hint: "Only a dead letter can be redriven, edited or discarded.",
        });
      }
    }
  }

  /** Reads one dead letter with its payload: items in a source need the pipeline. */
  openDeadLetter(batch: string, place: LetterPlace): Promise<OpenedDeadLetter> {
    const parts = { store: this.#store, clock: this.#clock, random: this.#random };
    return openDeadLetter(parts, batch, place);
  }

  /** Replaces the payload of a dead letter. With the pipeline, its schema checks the new one. */
  editDeadLetter(
    batch: string,
    { payload, ...options }: LetterPlace & ActOptions & { readonly payload: unknown },
  ): Promise<void> {
    return editDeadLetter(this.#store, batch, options, payload, readAct(options));
  }

  /** Accepts failures: they stay failures, and are not redriven. */
  async discard(
    batch: string,
    filter: DeadLetterFilter,
    options: ActOptions = {},
  ): Promise<number> {
    await this.#checkItems(batch, filter);
    return this.#store.discardDeadLetters(batch, { ...readAct(options), filter });
  }

  /**
   * Erases the details that handlers recorded with the states of items with these keys, or of all
   * items (null). The ledger still verifies, and records who did it. Returns the number of erased
   * records.
   */
  async eraseDetails(
    batch: string,
    { keys, ...options }: ActOptions & { readonly keys: readonly string[] | null },
  ): Promise<number> {
    await this.#getBatch(batch);
    return eraseRecorded(this.#store, batch, keys, readAct(options));
  }

  async why(id: string, chunksMax: number = CHUNKS_EXPLAINED): Promise<Explanation> {
    const facts = await this.#store.readWaiting(id, chunksMax);
    if (facts === null) throw unknownBatch(id);
    return {
      batch: id,
      ...explainBatch(facts.batch),
      chunks: facts.chunks.map((chunk) => ({
        chunk: chunk.chunk,
        ...explainChunk(chunk, facts.batch),
      })),
    };
  }

  /**
   * Sets a cap, a weight or a rate that replaces the pipeline's own; null removes it. False when
   * the value is unchanged.
   */
  async setLimit(request: LimitRequest, options: ActOptions = {}): Promise<boolean> {
    await checkLimit(this.#store, request, (target) => this.checkTarget(target));
    return this.#store.setLimit(request, readAct(options));
  }

  /** The limits that operators have set. */
  async listLimits(): Promise<readonly LimitSetting[]> {
    return this.#store.listLimits();
  }

  /** Who set or removed which limit, from the first change on. */
  async listLimitChanges(afterSeq = 0, limit: number = PAGE): Promise<readonly LimitChange[]> {
    return this.#store.listLimitChanges(afterSeq, limit);
  }

  /** Deletes expired batches and messages. */
  async prune(policy: RetentionPolicy): Promise<PruneResult> {
    return pruneByAge(this.#store, this.#clock, policy);
  }

  async #getBatch(id: string): Promise<BatchSnapshot> {
    const batch = await this.#store.getBatch(id);
    if (batch === null) throw unknownBatch(id);
    return batch;
  }
}

export function readAct({ by, why }: ActOptions): Act {
  return {
    by: (by ?? readUser()).slice(0, NAME_CHARS_MAX).toWellFormed(),
    why: why === undefined ? null : redactText(why).slice(0, WHY_CHARS_MAX).toWellFormed(),
  };
}

function readUser(): string {
  try {
    return userInfo().username;
  } catch {
    // The user has no entry in the system's list, as in some containers.
    return "unknown";
  }
}

function readMode({ mode }: StopOptions, otherwise: StopMode): StopMode {
  if (mode === undefined) return otherwise;
  if (STOP_MODES.includes(mode)) return mode;
  throw new SluiceError("BAD_OPTION", `${JSON.stringify(mode)} is not a stop mode`, {
    field: "mode",
    hint: `Use one of ${STOP_MODES.join(", ")}.`,
  });
}

function checkRate(ceiling: number, perSecond: number | null): void {
  const rateFits = perSecond === null || (perSecond > 0 && Number.isFinite(perSecond));
  if (Number.isInteger(ceiling) && ceiling > 0 && rateFits) return;
  throw new SluiceError("BAD_OPTION", "a ceiling and a rate are numbers above 0", {
    field: rateFits ? "ceiling" : "perSecond",
    hint: "The ceiling is a whole number of items; the rate is in items a second.",
  });
}

function unknownBatch(id: string): SluiceError {
  return new SluiceError("NOT_FOUND", `there is no batch ${id} in this store`, {
    kind: "batch",
    hint: "`sluice list` shows all batches.",
  });
}

function dropUndefined(given: object): object {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
