/**
 * What the items of many batches do, step after step; the pipelines that run them; and a log of
 * every run, to be held against what the store says.
 */
import { PermanentError, TransientError } from "../src/core/errors.ts";
import { sleep } from "../src/ports/clock.ts";
import type { Slice, Source } from "../src/ports/source.ts";
import type { ChunkContext, ChunkItem, ItemContext } from "../src/runtime/contexts.ts";
import {
  failed,
  type ItemOutcome,
  later,
  readOutcome,
  skipped,
  succeeded,
} from "../src/runtime/outcomes.ts";
import { definePipeline, type Pipeline } from "../src/runtime/pipeline.ts";
import { never, type Node, type World } from "./world.ts";

/** What an item does in one step. Whatever succeeds has a result, which the next step gets. */
export type Doing =
  | { readonly does: "succeed" | "skip" | "refuse" | "kill" }
  /** Fails the first few tries of every drive. */
  | { readonly does: "stumble"; readonly times: number }
  /** Fails in every drive before this one. */
  | { readonly does: "recover"; readonly drive: number }
  /** Takes for ever the first few tries. */
  | { readonly does: "hang"; readonly times: number; readonly heedsSignal: boolean }
  /** Records each of its stages, and fails once after one of them. */
  | { readonly does: "stages"; readonly stages: number; readonly failsAfter: number }
  /** Has nothing to do the first few times. */
  | { readonly does: "later"; readonly times: number };

export interface StepPlot {
  readonly name: string;
  /** Waits for an outside count instead. */
  readonly waits: boolean;
  readonly chunkSize: number;
  readonly concurrency: number;
  readonly byChunk: boolean;
  readonly maxRedrives: number;
  readonly failureBudget: number | null;
  readonly canary: number | null;
  readonly dedupes: boolean;
}

export interface PipelinePlot {
  readonly name: string;
  readonly supply: "ranged" | "iterable" | "handed_over";
  readonly steps: readonly StepPlot[];
}

/** One batch. */
export interface Errand {
  /** Its key, and what its source is made from. */
  readonly key: string;
  readonly pipeline: string;
  readonly lane: string;
  /** After the one before it. */
  readonly submitAfterMs: number;
  readonly deadlineInMs: number | null;
  /** What each of its items does in each step. */
  readonly doings: readonly (readonly Doing[])[];
  /** The content of each item; equal ones are duplicates where a step looks for them. */
  readonly contents: readonly string[];
}

/** An item on its way through the steps. */
export interface Parcel {
  readonly key: string;
  readonly n: number;
  /** Somebody has edited it: it is not refused any more. */
  readonly mended?: boolean;
}

export interface ErrandRun {
  readonly node: Node;
  readonly batch: string;
  readonly step: number;
  /** The item's number in its step. */
  readonly index: number;
  readonly attempt: number;
  readonly drive: number;
  readonly fence: number;
  readonly final: boolean;
  readonly startedAt: number;
  /** Its handler came to an end while its node lived. */
  ended: boolean;
}

export type RunFacts = Pick<
  ItemContext,
  "batch" | "index" | "attempt" | "drive" | "fence" | "final" | "signal"
> &
  Partial<Pick<ItemContext, "checkpoint" | "lastCheckpoint">>;

export const TIME_LIMIT_MS = 400;
const ITEM_MAX_MS = 20;
const LATER_MS = 60;
const COUNT_TARGET = 5;

export class Errands {
  readonly errands: ReadonlyMap<string, Errand>;
  readonly runs: ErrandRun[] = [];
  readonly problems: string[] = [];
  onStart: (run: ErrandRun) => void = () => undefined;
  readonly #world: World;
  /** The last stage that was recorded for sure, and the last that was tried, by item. */
  readonly #saved = new Map<string, number>();
  readonly #tried = new Map<string, number>();
  /** How often an item did what it does only a few times. */
  readonly #done = new Map<string, number>();
  /** When an outside count was first looked at. */
  readonly #counted = new Map<string, number>();
  readonly #active = new Map<string, number>();

  constructor(world: World, errands: readonly Errand[]) {
    this.#world = world;
    this.errands = new Map(errands.map((errand) => [errand.key, errand]));
  }

  listItems(key: string): Parcel[] {
    return (this.errands.get(key)?.doings[0] ?? []).map((_, n) => ({ key, n }));
  }

  getDoing({ key, n }: Parcel, step: number): Doing {
    return this.errands.get(key)?.doings[step]?.[n] ?? { does: "succeed" };
  }

  getContent({ key, n }: Parcel): string {
    return this.errands.get(key)?.contents[n] ?? `${key}/${n}`;
  }

  /** The pipeline as this node has it: its handlers die with the node. */
  makePipeline(node: Node, { name, supply, steps }: PipelinePlot): Pipeline<Parcel, string> {
    const first =
      supply === "handed_over"
        ? {}
        : {
            source: ({ input }: { input: string }) =>
              supply === "ranged" ? this.#makeRanged(node, input) : this.#iterate(node, input),
          };
    const definitions = steps.map((step, number) => ({
      name: step.name,
      ...(number === 0 ? first : {}),
      ...(step.waits ? this.#makeWait(node) : this.#makeWork(node, step, number)),
    }));
    return definePipeline({
      name,
      steps: definitions as never,
    }) as unknown as Pipeline<Parcel, string>;
  }

  #makeWork(node: Node, step: StepPlot, number: number): object {
    const { chunkSize, concurrency, maxRedrives, failureBudget, canary, dedupes, byChunk } = step;
    const process = (parcel: Parcel, context: ItemContext): unknown =>
      this.#process(node, step, number, parcel, context);
    const processChunk = (
      items: readonly ChunkItem<Parcel>[],
      context: ChunkContext,
    ): Promise<ItemOutcome[]> => this.#processChunk(node, step, number, items, context);
    return {
      chunkSize,
      concurrency,
      maxRedrives,
      failureBudget,
      canary,
      timeLimitMs: TIME_LIMIT_MS,
      retry: { attempts: 3, baseMs: 40, capMs: 200 },
      key: ({ key, n }: Parcel) => `${key}/${n}`,
      ...(dedupes
        ? { dedupe: { identity: (one: Parcel) => this.getContent(one), content: () => "same" } }
        : {}),
      ...(byChunk ? { processChunk } : { process }),
    };
  }

  /** Rises with time, to be looked at a few times. */
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
    node: Node,
    step: StepPlot,
    number: number,
    items: readonly ChunkItem<Parcel>[],
    { batch, fence, final, signal }: ChunkContext,
  ): Promise<ItemOutcome[]> {
    const answers = items.map(async ({ item, index, attempt, drive }): Promise<ItemOutcome> => {
      try {
        const facts = { batch, index, attempt, drive, fence, final, signal };
        const value = await this.#process(node, step, number, item, facts);
        return readOutcome(value) ?? succeeded(value);
      } catch (error) {
        return failed(error);
      }
    });
    return Promise.all(answers);
  }

  async #process(
    node: Node,
    step: StepPlot,
    number: number,
    parcel: Parcel,
    context: RunFacts,
  ): Promise<unknown> {
    if (!node.alive) return never();
    const { batch, index, attempt, drive, fence, final } = context;
    const { time, trace } = this.#world;
    const startedAt = time.nowMs;
    const run: ErrandRun = {
      node,
      batch,
      step: number,
      index,
      attempt,
      drive,
      fence,
      final,
      startedAt,
      ended: false,
    };
    this.runs.push(run);
    const what = `${parcel.key}/${number}/${index}`;
    trace.add(`${time.elapsedMs} ${node.name}.${node.life} runs ${what} ${drive}.${attempt}`);
    this.onStart(run);
    const doing = this.getDoing(parcel, number);
    const leave = this.#enter(node, step, doing, context.signal);
    try {
      const value = await this.#do(doing, node, parcel, number, context);
      return node.alive ? value : await never();
    } catch (error) {
      if (!node.alive) await never();
      throw error;
    } finally {
      run.ended = true;
      leave();
    }
  }

  /** One that was told to stop counts no longer: the engine may give up on it. */
  #enter({ name, life }: Node, step: StepPlot, doing: Doing, signal: AbortSignal): () => void {
    if (doing.does === "hang" || step.byChunk) return () => undefined;
    const where = `${name}.${life}/${step.name}`;
    const active = (this.#active.get(where) ?? 0) + 1;
    this.#active.set(where, active);
    if (active > step.concurrency) this.problems.push(`${active} handlers of ${where} at once`);
    let counted = true;
    const leave = (): void => {
      if (counted) this.#active.set(where, (this.#active.get(where) ?? 1) - 1);
      counted = false;
    };
    signal.addEventListener("abort", leave, { once: true });
    return leave;
  }

  async #do(
    doing: Doing,
    node: Node,
    parcel: Parcel,
    step: number,
    context: RunFacts,
  ): Promise<unknown> {
    const result = { ...parcel };
    const { attempt, drive, signal } = context;
    const id = `${parcel.key}/${step}/${parcel.n}`;
    await this.#spend(node);
    switch (doing.does) {
      case "succeed":
        return result;
      case "skip":
        return skipped();
      case "refuse":
        if (parcel.mended === true) return result;
        throw new PermanentError("never", { code: "REFUSED" });
      case "kill":
        this.#world.crash(node, "item");
        return never();
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
      case "stages":
        return this.#goThrough(doing, node, id, result, context);
      case "later":
        return this.#doOnce(id, doing.times) ? later(LATER_MS) : result;
      default:
        throw new Error(`unknown doing ${JSON.stringify(doing)}`);
    }
  }

  async #goThrough(
    { stages, failsAfter }: { readonly stages: number; readonly failsAfter: number },
    node: Node,
    id: string,
    result: Parcel,
    { checkpoint, lastCheckpoint }: RunFacts,
  ): Promise<unknown> {
    if (checkpoint === undefined) return result;
    const last = Number(lastCheckpoint?.data ?? 0);
    if (last < (this.#saved.get(id) ?? 0)) {
      this.problems.push(`${id} begins after stage ${last}, but had ${this.#saved.get(id)}`);
    }
    if (last > (this.#tried.get(id) ?? 0)) this.problems.push(`${id} never had stage ${last}`);
    for (let stage = last + 1; stage <= stages; stage++) {
      await this.#spend(node);
      if (!node.alive) return never();
      this.#tried.set(id, Math.max(stage, this.#tried.get(id) ?? 0));
      await checkpoint("stage", stage);
      if (!node.alive) return never();
      this.#saved.set(id, Math.max(stage, this.#saved.get(id) ?? 0));
      if (stage === failsAfter && this.#doOnce(id, 1)) {
        throw new TransientError("between two stages", { code: "STUMBLED" });
      }
    }
    return result;
  }

  #doOnce(id: string, times: number): boolean {
    const done = this.#done.get(id) ?? 0;
    this.#done.set(id, done + 1);
    return done < times;
  }

  async #spend(node: Node): Promise<void> {
    const tookMs = Math.floor(this.#world.random.next() * (ITEM_MAX_MS + 1));
    // Some handlers are done within the same turn.
    if (tookMs > 0) await sleep(node.clock, tookMs);
  }

  /** Any node can read it in pieces: locators and cursors are item numbers. */
  #makeRanged(node: Node, key: string): Source<Parcel> {
    const items = this.listItems(key);
    return {
      kind: "numbers",
      async *slice({ chunkSize, after }): AsyncGenerator<Slice> {
        for (let start = Number(after ?? 0); start < items.length; start += chunkSize) {
          await sleep(node.clock, 1);
          const end = Math.min(start + chunkSize, items.length);
          yield { items: end - start, locator: `${start}-${end}`, cursor: String(end) };
        }
      },
      async read(locators) {
        await sleep(node.clock, 1);
        return locators.map((locator) => {
          const [start = 0, end = 0] = locator.split("-").map(Number);
          return { count: end - start, at: (position) => items[start + position] };
        });
      },
    };
  }

  async *#iterate(node: Node, key: string): AsyncGenerator<Parcel> {
    for (const item of this.listItems(key)) {
      await sleep(node.clock, 1);
      yield item;
    }
  }
}
