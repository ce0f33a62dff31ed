/**
 * Wraps a user's functions for a life of a process: while one runs, virtual time stands still,
 * because it may do something real; and its answer after its process has died is dropped.
 */
import type { Sink } from "../../ports/sink.ts";
import type { Source, SourceLike } from "../../ports/source.ts";
import type { ChunkContext, ChunkItem, ItemContext } from "../../runtime/pipeline/contexts.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import { isSource } from "../../runtime/reading/open-source.ts";
import type { Pipeline } from "../../runtime/pipeline/pipeline.ts";
import type { Step } from "../../runtime/pipeline/step.ts";
import { type EventHandler, isSink } from "../../runtime/delivering/subscriber.ts";
import type { Hold } from "./hold.ts";
import type { Life } from "./life.ts";
import { never } from "./never.ts";
import { runInScope } from "./scope.ts";
import type { VirtualTime } from "./virtual-clock.ts";

export interface UserCodeParts {
  readonly life: Life;
  readonly time: VirtualTime;
  readonly hangAfterRealMs: number;
  /** A call has not settled within that time. */
  readonly onHang: () => void;
}

export class UserCode {
  readonly #parts: UserCodeParts;
  /** Pipelines that are already wrapped: an engine passes on to itself what it was given. */
  readonly #prepared = new WeakSet<Pipeline>();

  constructor(parts: UserCodeParts) {
    this.#parts = parts;
  }

  /** Makes an engine call all user code through here. */
  equip(engine: Engine): Engine {
    const submit = engine.submit.bind(engine);
    const open = engine.open.bind(engine);
    const work = engine.work.bind(engine);
    const subscribe = engine.subscribe.bind(engine);
    const own: Pick<Engine, "submit" | "open" | "work" | "subscribe"> = {
      submit: (pipeline, input, options) =>
        submit(this.#prepare(pipeline), this.#holdItems(input), options),
      open: (pipeline, options) => open(this.#prepare(pipeline), options),
      work: (pipeline, batch) => work(this.#prepare(pipeline), batch),
      subscribe: (name, target, options) => subscribe(name, this.#holdSubscriber(target), options),
    };
    return Object.assign(engine, own);
  }

  #prepare<Item, Input, Result>(
    pipeline: Pipeline<Item, Input, Result>,
  ): Pipeline<Item, Input, Result> {
    if (this.#prepared.has(pipeline)) return pipeline;
    const [first, ...rest] = pipeline.steps;
    const steps = [
      this.#prepareStep(first),
      ...rest.map((step) => this.#prepareStep(step)),
    ] as const;
    const prepared = { ...pipeline, steps };
    this.#prepared.add(prepared);
    return prepared;
  }

  #prepareStep(step: Step): Step {
    const { source, itemSchema } = step;
    const standard = itemSchema?.["~standard"];
    return {
      ...step,
      ...(step.process === undefined
        ? {}
        : {
            process: (item: unknown, context: ItemContext) =>
              this.#call((hold) => step.process?.(item, wrapCheckpoint(context, hold))),
          }),
      ...(step.processChunk === undefined
        ? {}
        : {
            processChunk: (items: readonly ChunkItem<unknown>[], context: ChunkContext) =>
              this.#call(() => step.processChunk?.(items, context)),
          }),
      ...(source === null ? {} : { source: (context) => this.#holdSource(source(context)) }),
      ...(standard === undefined
        ? {}
        : {
            itemSchema: {
              "~standard": {
                ...standard,
                validate: (value: unknown) => this.#call(() => standard.validate(value)),
              },
            },
          }),
    };
  }

  #holdSource(source: SourceLike<unknown>): SourceLike<unknown> {
    if (!isSource(source)) return this.#holdItems(source);
    const held: Source = {
      kind: source.kind,
      slice: (request) => this.#holdIterable(source.slice(request)),
      read: (locators) => this.#call(() => source.read(locators)),
      close: () => this.#call(async () => source.close?.()),
    };
    return held;
  }

  /** Only awaited code can do something real. */
  #holdItems<Items>(items: Items): Items {
    const isAwaited = typeof items === "object" && items !== null && Symbol.asyncIterator in items;
    if (!isAwaited) return items;
    return this.#holdIterable(items as unknown as AsyncIterable<unknown>) as Items;
  }

  #holdIterable<Item>(items: AsyncIterable<Item>): AsyncIterable<Item> {
    return {
      [Symbol.asyncIterator]: () => {
        const iterator = items[Symbol.asyncIterator]();
        return {
          next: () => this.#call(() => iterator.next()),
          return: (value: unknown) =>
            this.#call(
              async (): Promise<IteratorResult<Item>> =>
                (await iterator.return?.(value)) ?? { done: true, value },
            ),
        };
      },
    };
  }

  #holdSubscriber(target: EventHandler | Sink): EventHandler | Sink {
    if (typeof target === "function") return (event) => this.#call(() => target(event));
    if (!isSink(target)) return target;
    const { kind, target: name, events, retry } = target;
    const deliver: Sink["deliver"] = (event, context) =>
      this.#call(() => target.deliver(event, context));
    return { kind, target: name, events, retry, deliver };
  }

  /** Calls it while time stands still; not at all when its process is dead. */
  #call<Returned>(work: (hold: Hold) => Returned): Returned {
    const { life, time, hangAfterRealMs, onHang } = this.#parts;
    if (!life.alive) return never() as Returned;
    const hold = time.hold(hangAfterRealMs, onHang);
    let returned: Returned;
    try {
      returned = runInScope({ time, life, hold }, () => work(hold));
    } catch (error) {
      hold.release();
      throw error;
    }
    if (isThenable(returned)) return this.#follow(returned, hold) as Returned;
    hold.release();
    return returned;
  }

  #follow(answer: PromiseLike<unknown>, hold: Hold): PromiseLike<unknown> {
    const { life } = this.#parts;
    return Promise.resolve(answer).then(
      (value) => {
        hold.release();
        return life.alive ? value : never();
      },
      (error: unknown) => {
        hold.release();
        if (!life.alive) return never();
        throw error;
      },
    );
  }
}

/** The engine commits a checkpoint in virtual time. */
function wrapCheckpoint(context: ItemContext, hold: Hold): ItemContext {
  const checkpoint: ItemContext["checkpoint"] = async (name, data) => {
    const resume = hold.suspend();
    try {
      await context.checkpoint(name, data);
    } finally {
      resume();
    }
  };
  // A proxy, so that nothing is made that the handler does not ask for.
  return new Proxy(context, {
    get: (target, name): unknown =>
      name === "checkpoint" ? checkpoint : Reflect.get(target, name, target),
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    "then" in value &&
    typeof value.then === "function"
  );
}
