/**
 * What the items of a world's batch do when they run, the pipeline that runs them, and a log of
 * every run, which is compared with the store.
 */
import { FatalError, PermanentError, TransientError } from "../../src/core/base/errors.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { Slice, Source } from "../../src/ports/source.ts";
import {
  failed,
  type ItemOutcome,
  readOutcome,
  skipped,
  succeeded,
} from "../../src/runtime/pipeline/outcomes.ts";
import type { ChunkContext, ChunkItem, ItemContext } from "../../src/runtime/pipeline/contexts.ts";
import { definePipeline, type Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { ABORT_GRACE_MS } from "../start-engine.ts";
import { never, type Node, type World } from "../world.ts";

export type Behaviour =
  | { readonly does: "succeed" }
  /** Succeeds with a result. */
  | { readonly does: "return" }
  | { readonly does: "skip" }
  /** Fails for good. */
  | { readonly does: "refuse" }
  /** Fails the first few times. */
  | { readonly does: "stumble"; readonly times: number }
  /** Hangs the first few times, whether its signal is set or not. */
  | { readonly does: "hang"; readonly times: number; readonly heedsSignal: boolean }
  /** Kills its node on every run. */
  | { readonly does: "kill" }
  /** Reports once that its worker cannot continue. */
  | { readonly does: "stop_worker" };

export interface Run {
  readonly node: Node;
  readonly item: number;
  readonly attempt: number;
  readonly startedAt: number;
  /** The handler's ending; null if it never ended. */
  end: "returned" | "threw" | null;
}

export interface Item {
  readonly n: number;
}

export type Supply = "ranged" | "iterable" | "handed_over";

/** The context of an item's run, whether alone or with its chunk. */
export type RunContext = Pick<ItemContext, "batch" | "index" | "attempt" | "fence" | "signal">;

export interface WorkloadOptions {
  /** The pipeline's name. Default "work". */
  readonly name?: string;
  /** Handled a chunk at a time. Default false. */
  readonly byChunk?: boolean;
  readonly behaviours: readonly Behaviour[];
  readonly supply: Supply;
  readonly chunkSize: number;
  readonly concurrency: number;
  /** The longest run of an item that does not hang. Default 20. */
  readonly itemMaxMs?: number;
  /** Time that a source takes for each slice or item. Default 1. */
  readonly sourceMs?: number;
  /** Time that a ranged source takes to read a slice again. Default 1. */
  readonly readMs?: number;
  readonly attempts?: number;
  readonly timeLimitMs?: number;
  /** Automatic passes over dead letters. Default 0. */
  readonly maxRedrives?: number;
}

export interface RunListener {
  onStart(run: Run, context: RunContext): void;
}

const ITEM_TIME_LIMIT_MS = 400;
export const ATTEMPTS = 4;

export class Workload {
  readonly options: WorkloadOptions;
  readonly runs: Run[] = [];
  readonly listeners: RunListener[] = [];
  /** The most handlers that ran at the same time in any life of a node. */
  concurrentMax = 0;
  readonly #active = new Map<Node, number>();
  readonly #world: World;

  constructor(world: World, options: WorkloadOptions) {
    this.#world = world;
    this.options = options;
  }

  get items(): Item[] {
    return this.options.behaviours.map((_, n) => ({ n }));
  }

  /** The pipeline on this node: its handlers die with the node. */
  makePipeline(node: Node): Pipeline<Item, string> {
    const { name = "work", chunkSize, concurrency, supply, byChunk = false } = this.options;
    const { attempts = ATTEMPTS, timeLimitMs = ITEM_TIME_LIMIT_MS, maxRedrives = 0 } = this.options;
    const process = (item: Item, context: ItemContext): unknown =>
      this.#process(node, item, context);
    const processChunk = (
      items: readonly ChunkItem<Item>[],
      context: ChunkContext,
    ): Promise<ItemOutcome[]> => this.#processChunk(node, items, context);
    const definition = {
      name,
      chunkSize,
      concurrency,
      timeLimitMs,
      maxRedrives,
      retry: { attempts, baseMs: 50, capMs: 400 },
      key: ({ n }: Item) => `key-${n}`,
      ...(byChunk ? { processChunk } : { process }),
    };
    if (supply === "handed_over") {
      return definePipeline(definition) as unknown as Pipeline<Item, string>;
    }
    const source = (): Source<Item> | AsyncIterable<Item> =>
      supply === "ranged" ? this.#makeRanged(node) : this.#iterate(node);
    return definePipeline<Item, unknown>({ ...definition, source });
  }

  /** Runs all items of a chunk side by side; each has its own outcome. */
  #processChunk(
    node: Node,
    items: readonly ChunkItem<Item>[],
    { batch, fence, signal }: ChunkContext,
  ): Promise<ItemOutcome[]> {
    const answers = items.map(async ({ item, index, attempt }): Promise<ItemOutcome> => {
      try {
        const value = await this.#process(node, item, { batch, index, attempt, fence, signal });
        return readOutcome(value) ?? succeeded(value);
      } catch (error) {
        return failed(error);
      }
    });
    return Promise.all(answers);
  }

  #process(node: Node, { n }: Item, context: RunContext): Promise<unknown> {
    if (!node.alive) return never();
    const behaviour = this.options.behaviours[n] as Behaviour;
    const { attempt } = context;
    const startedAt = this.#world.time.nowMs;
    const run: Run = { node, item: n, attempt, startedAt, end: null };
    this.runs.push(run);
    this.#world.note(node, `runs ${n}/${attempt}`, "run");
    for (const listener of this.listeners) listener.onStart(run, context);
    const leave = this.#enter(node);
    return this.#behave(behaviour, node, context, n).then(
      (value) => {
        if (!node.alive) return never();
        run.end = "returned";
        leave();
        return value;
      },
      (error: unknown) => {
        if (!node.alive) return never();
        run.end = "threw";
        leave();
        throw error;
      },
    );
  }

  /** A handler that ignores its signal no longer counts once the engine may have abandoned it. */
  #enter(node: Node): () => void {
    const { timeLimitMs = ITEM_TIME_LIMIT_MS } = this.options;
    const active = (this.#active.get(node) ?? 0) + 1;
    this.#active.set(node, active);
    this.concurrentMax = Math.max(this.concurrentMax, active);
    let counted = true;
    const leave = (): void => {
      if (counted) this.#active.set(node, (this.#active.get(node) ?? 1) - 1);
      counted = false;
      forget();
    };
    const forget = node.clock.after(timeLimitMs + ABORT_GRACE_MS, leave);
    return leave;
  }

  async #behave(
    behaviour: Behaviour,
    node: Node,
    { attempt, signal }: RunContext,
    n: number,
  ): Promise<unknown> {
    const { itemMaxMs = 20 } = this.options;
    const tookMs = Math.floor(this.#world.random.next() * (itemMaxMs + 1));
    // Some handlers end within the same turn.
    if (tookMs > 0) await sleep(node.clock, tookMs);
    switch (behaviour.does) {
      case "succeed":
        return undefined;
      case "return":
        return { n };
      case "skip":
        return skipped("nothing to do");
      case "refuse":
        throw new PermanentError("never", { code: "REFUSED" });
      case "stumble":
        if (attempt > behaviour.times) return undefined;
        throw new TransientError("not yet", { code: "STUMBLED" });
      case "hang":
        if (attempt > behaviour.times) return undefined;
        await new Promise<void>((resolve) => {
          if (behaviour.heedsSignal) signal.addEventListener("abort", () => resolve());
        });
        signal.throwIfAborted();
        return undefined;
      case "kill":
        this.#world.crash(node, "item");
        return never();
      case "stop_worker":
        if (node.life > 1) return undefined;
        throw new FatalError("credentials are gone");
      default:
        throw new Error(`unknown behaviour ${JSON.stringify(behaviour)}`);
    }
  }

  /** A source that any node can read in pieces: locators and cursors are item numbers. */
  #makeRanged(node: Node): Source<Item> {
    const { items } = this;
    const { sourceMs = 1, readMs = 1 } = this.options;
    return {
      kind: "numbers",
      async *slice({ chunkSize, after }): AsyncGenerator<Slice> {
        for (let start = Number(after ?? 0); start < items.length; start += chunkSize) {
          await sleep(node.clock, sourceMs);
          const end = Math.min(start + chunkSize, items.length);
          yield { items: end - start, locator: `${start}-${end}`, cursor: String(end) };
        }
      },
      async read(locators) {
        await sleep(node.clock, readMs);
        return locators.map((locator) => {
          const [start = 0, end = 0] = locator.split("-").map(Number);
          return { count: end - start, at: (position) => items[start + position] };
        });
      },
    };
  }

  async *#iterate(node: Node): AsyncGenerator<Item> {
    const { sourceMs = 1 } = this.options;
    for (const item of this.items) {
      await sleep(node.clock, sourceMs);
      yield item;
    }
  }
}
