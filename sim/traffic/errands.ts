/**
 * The items of many batches as handlers see them: the pipelines that run them, what each item does
 * in each step, and a log of every run, which is compared with the store.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import {
  FatalError,
  OutageError,
  PermanentError,
  TransientError,
} from "../../src/core/base/errors.ts";
import type { ChunkContext, ChunkItem, ItemContext } from "../../src/runtime/pipeline/contexts.ts";
import {
  failed,
  type ItemOutcome,
  later,
  readOutcome,
  skipped,
  succeeded,
} from "../../src/runtime/pipeline/outcomes.ts";
import { definePipeline, type Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { never, type Node, type World } from "../world.ts";
import { describePace, describeRate } from "./limits.ts";
import { describeSharing } from "./sharing.ts";
import { iterateParcels, makeRangedSource } from "./parcel-source.ts";
import {
  type Doing,
  type Errand,
  type ErrandListener,
  type ErrandRun,
  ERRORS_TOPIC,
  type Parcel,
  PARCELS_TOPIC,
  type PipelinePlot,
  RECORDED,
  type Release,
  type RunFacts,
  type StepPlot,
} from "./errand.ts";

const LATER_MS = 60;
const COUNT_TARGET = 5;

/** A step's code on a node. */
interface Code {
  readonly node: Node;
  readonly release: Release;
  readonly pipeline: string;
  readonly step: StepPlot;
  readonly number: number;
  /** Whether its handlers record their states. */
  readonly records: boolean;
}

export class Errands {
  readonly errands: ReadonlyMap<string, Errand>;
  readonly runs: ErrandRun[] = [];
  readonly listeners: ErrandListener[] = [];
  readonly #world: World;
  /** Number of times that an item did what it does only a few times. */
  readonly #done = new Map<string, number>();
  /** Number of handler calls. */
  #calls = 0;
  /** Number of times that a source which can be read once was opened. */
  #openings = 0;
  /** Time of the first look at an outside count. */
  readonly #counted = new Map<string, number>();

  constructor(world: World, errands: readonly Errand[]) {
    this.#world = world;
    this.errands = new Map(errands.map((errand) => [errand.key, errand]));
  }

  listItems(key: string): Parcel[] {
    return (this.errands.get(key)?.doings[0] ?? []).map((_, n) => ({ key, n }));
  }

  /**
   * Each opening of a source begins with another item, so a mixture of two plans loses some items.
   */
  #rotate(items: readonly Parcel[]): Parcel[] {
    const by = this.#openings++ % Math.max(1, items.length);
    return [...items.slice(by), ...items.slice(0, by)];
  }

  getDoing({ key, n }: Parcel, step: number): Doing {
    return this.errands.get(key)?.doings[step]?.[n] ?? { does: "succeed" };
  }

  getContent({ key, n }: Parcel): string {
    return this.errands.get(key)?.contents[n] ?? `${key}/${n}`;
  }

  /** The pipeline on this node: its handlers die with the node. */
  makePipeline(node: Node, plot: PipelinePlot, deployed: number): Pipeline<Parcel, string> {
    const { name, supply, steps, releases, sharing, ledger: records = false } = plot;
    const release = releases[Math.min(deployed, releases.length - 1)] as Release;
    const source = ({ input }: { input: string }): unknown =>
      supply === "ranged"
        ? makeRangedSource(node, this.listItems(input))
        : iterateParcels(node, this.#rotate(this.listItems(input)));
    const owned = supply === "handed_over" || supply === "open";
    const definitions = steps.map((step, number) => ({
      name: step.name,
      ...(number === 0 && !owned ? { source } : {}),
      ...(step.waits
        ? this.#makeWait(node)
        : this.#makeWork({ node, release, pipeline: name, step, number, records })),
    }));
    return definePipeline({
      name,
      version: release.version,
      accepts: release.accepts,
      ...(sharing === undefined ? {} : describeSharing(sharing)),
      ...(records && { ledger: { item: true, states: RECORDED } }),
      steps: definitions as never,
    }) as unknown as Pipeline<Parcel, string>;
  }

  #makeWork(code: Code): object {
    const { chunkSize, concurrency, concurrencyMin, maxRedrives, failureBudget, canary } =
      code.step;
    const { timeLimitMs, retry, dedupes, byChunk, rate, pace, checkMaxMs } = code.step;
    const process = (parcel: Parcel, context: ItemContext): unknown =>
      this.#process(code, parcel, context, ++this.#calls);
    const processChunk = (
      items: readonly ChunkItem<Parcel>[],
      context: ChunkContext,
    ): Promise<ItemOutcome[]> => this.#processChunk(code, items, context);
    return {
      chunkSize,
      concurrency:
        concurrencyMin === null ? concurrency : { min: concurrencyMin, max: concurrency },
      maxRedrives,
      failureBudget,
      canary,
      timeLimitMs,
      retry,
      rate: rate === null ? null : describeRate(rate, code.pipeline),
      pace: pace === null ? null : describePace(pace),
      ...(checkMaxMs === null ? {} : { item: this.#makeCheck(code.node, checkMaxMs) }),
      topics: { emit: [PARCELS_TOPIC], errors: ERRORS_TOPIC },
      key: ({ key, n }: Parcel) => `${key}/${n}`,
      ...(dedupes
        ? { dedupe: { identity: (one: Parcel) => this.getContent(one), content: () => "same" } }
        : {}),
      ...(byChunk ? { processChunk } : { process }),
    };
  }

  /** The check finds nothing wrong, but takes its time. */
  #makeCheck(node: Node, checkMaxMs: number): StandardSchemaV1<unknown, unknown> {
    const validate = async (value: unknown): Promise<{ readonly value: unknown }> => {
      await this.#spend(node, checkMaxMs);
      return { value };
    };
    return { "~standard": { version: 1, vendor: "traffic", validate } };
  }

  /** Rises with time, so that it takes a few looks. */
  #makeWait(node: Node): object {
    const count = ({ batch }: ItemContext): Promise<number> => {
      if (!node.alive) return never();
      const now = this.#world.time.nowMs;
      const since = this.#counted.get(batch) ?? now;
      this.#counted.set(batch, since);
      return Promise.resolve(Math.floor((now - since) / 100));
    };
    const delays = { steps: [], elseMs: 150, stallMs: 150 };
    return { waitFor: { count, target: COUNT_TARGET, delays } };
  }

  #processChunk(
    code: Code,
    items: readonly ChunkItem<Parcel>[],
    context: ChunkContext,
  ): Promise<ItemOutcome[]> {
    const { batch, fence, final, signal } = context;
    const call = ++this.#calls;
    const answers = items.map(async (given): Promise<ItemOutcome> => {
      const { item, index, attempt, drive } = given;
      const emit = (topic: string, message: unknown): void => context.emit(given, topic, message);
      const record: RunFacts["record"] = (...args) => context.record(given, ...args);
      try {
        const facts = { batch, index, attempt, drive, fence, final, signal, emit, record };
        const value = await this.#process(code, item, facts, call);
        return readOutcome(value) ?? succeeded(value);
      } catch (error) {
        return failed(error);
      }
    });
    return Promise.all(answers);
  }

  async #process(code: Code, parcel: Parcel, context: RunFacts, call: number): Promise<unknown> {
    const { node, release, step: plot, number: step, records } = code;
    if (!node.alive) return never();
    const { batch, index, attempt, drive, fence, final, signal } = context;
    const doing = this.getDoing(parcel, step);
    const run: ErrandRun = {
      node,
      release,
      batch,
      step,
      plot,
      index,
      parcel,
      doing,
      attempt,
      drive,
      fence,
      final,
      call,
      startedAt: this.#world.time.nowMs,
      ended: false,
    };
    this.runs.push(run);
    this.#world.note(node, `runs ${parcel.key}/${step}/${index} ${drive}.${attempt}`, "run");
    for (const listener of this.listeners) listener.onStart?.(run);
    if (doing.does === "stages" && context.checkpoint !== undefined) {
      const last = Number(context.lastCheckpoint?.data ?? 0);
      this.#tellStage(node, `${parcel.key}/${step}/${parcel.n}`, "begins", last);
    }
    const leave = this.#watchLeave(run, signal);
    context.emit(PARCELS_TOPIC, { attempt });
    if (records) context.record("BEGUN");
    try {
      const value = await this.#do(code, run, context);
      if (node.alive) sayLast(context, records);
      return node.alive ? value : await never();
    } catch (error) {
      if (!node.alive) await never();
      throw error;
    } finally {
      run.ended = true;
      leave();
    }
  }

  /** A handler that got its stop signal no longer counts: the engine may abandon it. */
  #watchLeave(run: ErrandRun, signal: AbortSignal): () => void {
    let left = false;
    const leave = (): void => {
      if (left) return;
      left = true;
      for (const listener of this.listeners) listener.onLeave?.(run);
    };
    signal.addEventListener("abort", leave, { once: true });
    return leave;
  }

  async #do({ node, step, number }: Code, run: ErrandRun, context: RunFacts): Promise<unknown> {
    const { doing, parcel } = run;
    const { attempt, drive, signal } = context;
    const result = { ...parcel };
    const id = `${parcel.key}/${number}/${parcel.n}`;
    await this.#spend(node, this.errands.get(parcel.key)?.itemMaxMs ?? step.itemMaxMs);
    switch (doing.does) {
      case "succeed":
        return result;
      case "skip":
        return skipped();
      case "refuse":
        if (parcel.edited === true) return result;
        throw new PermanentError("never", { code: "REFUSED" });
      case "kill":
        this.#world.crash(node, "item");
        return never();
      case "murder":
        if (!this.#doOnce(id, doing.times)) return result;
        this.#world.crash(node, "item");
        return never();
      case "stop_worker":
        if (!this.#doOnce(id, doing.times)) return result;
        throw new FatalError("credentials are gone");
      case "stumble":
        if (attempt > doing.times) return result;
        throw new TransientError("not yet", { code: "STUMBLED" });
      case "recover":
        if (drive >= doing.drive) return result;
        throw new TransientError("not in this drive", { code: "STUMBLED" });
      case "hang":
        if (attempt > doing.times) return result;
        await new Promise<void>((resolve) => {
          if (doing.heedsSignal) signal.addEventListener("abort", () => resolve());
        });
        signal.throwIfAborted();
        return result;
      case "dawdle":
        if (attempt <= doing.times) await node.clock.dawdle(step.timeLimitMs * 2);
        return result;
      case "stages":
        return this.#goThrough(doing, node, step, id, result, context);
      case "throttle":
        if (!this.#doOnce(id, doing.times)) return result;
        if (!signal.aborted) {
          for (const listener of this.listeners) listener.onThrottle?.(run, doing.forMs);
        }
        throw new TransientError("too many", { code: "THROTTLED", retryAfterMs: doing.forMs });
      case "outage":
        // Without a pace this would be an ordinary failure.
        if (step.pace === null || !this.#doOnce(id, doing.times)) return result;
        throw new OutageError("no server answers");
      case "later":
        return this.#doOnce(id, doing.times) ? later(LATER_MS) : result;
      default:
        throw new Error(`unknown doing ${JSON.stringify(doing)}`);
    }
  }

  async #goThrough(
    { stages, failsAfter }: { readonly stages: number; readonly failsAfter: number },
    node: Node,
    step: StepPlot,
    id: string,
    result: Parcel,
    { checkpoint, lastCheckpoint }: RunFacts,
  ): Promise<unknown> {
    if (checkpoint === undefined) return result;
    const recordStage = (what: "tries" | "has", stage: number): void =>
      this.#tellStage(node, id, what, stage);
    const last = Number(lastCheckpoint?.data ?? 0);
    for (let stage = last + 1; stage <= stages; stage++) {
      await this.#spend(node, step.itemMaxMs);
      if (!node.alive) return never();
      recordStage("tries", stage);
      await checkpoint("stage", stage);
      if (!node.alive) return never();
      recordStage("has", stage);
      if (stage === failsAfter && this.#doOnce(id, 1)) {
        throw new TransientError("between two stages", { code: "STUMBLED" });
      }
    }
    return result;
  }

  #tellStage(node: Node, id: string, what: "begins" | "tries" | "has", stage: number): void {
    this.#world.note(node, `${id} ${what} stage ${stage}`, "run");
    for (const listener of this.listeners) listener.onStage?.(id, what, stage);
  }

  #doOnce(id: string, times: number): boolean {
    const done = this.#done.get(id) ?? 0;
    this.#done.set(id, done + 1);
    return done < times;
  }

  async #spend(node: Node, mostMs: number): Promise<void> {
    const tookMs = Math.floor(this.#world.random.next() * (mostMs + 1));
    // Some handlers end within the same turn.
    if (tookMs > 0) await node.clock.dawdle(tookMs);
  }
}

/** An abandoned handler may emit nothing more, but still answers. */
function sayLast({ emit, record, attempt, signal }: RunFacts, records: boolean): void {
  try {
    emit(PARCELS_TOPIC, { attempt });
    if (records) record("DONE", { attempt });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
