/**
 * Messages that handlers emit to topics: written with the outcome of their item, and not without
 * it.
 */
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { MESSAGES_PER_ITEM_MAX } from "../../../src/core/events/topic.ts";
import type { TopicMessage } from "../../../src/ports/store/topic-message.ts";
import type { ChunkItem, ItemContext } from "../../../src/runtime/pipeline/contexts.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { failed, later, skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, never, numbers } from "./engine-rig.ts";

/** An item that gives up becomes a dead letter at once: automatic passes are not tested here. */
const once = { retry: { attempts: 3, baseMs: 1, capMs: 2 }, maxRedrives: 0 };

async function readAll(engine: Engine, topic = "email"): Promise<TopicMessage[]> {
  return engine.topic(topic).read({ limit: 10_000 });
}

/** Ids without their batch, in order. */
async function readIds(engine: Engine, topic = "email"): Promise<string[]> {
  return (await readAll(engine, topic)).map(({ id }) => id.replace(/^[^/]*\//, "")).toSorted();
}

describeOnStores("emitting", (test) => {
  test("messages of a succeeded item are in their topics, with stable ids", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email", "sms"],
      process: (n: number, { emit }) => {
        emit("email", { n, to: ["a", "b"] });
        emit("sms", n);
        emit("email", null);
      },
    });
    const handle = await engine.submit(pipeline, [7]);
    await handle.wait();
    expect(await readAll(engine)).toMatchObject([
      { id: `${handle.id}/0/0/1/0`, topic: "email", batch: handle.id, data: { n: 7 } },
      { id: `${handle.id}/0/0/1/2`, data: null },
    ]);
    expect(await readAll(engine, "sms")).toMatchObject([{ id: `${handle.id}/0/0/1/1`, data: 7 }]);
  });

  test("only the attempt that makes the outcome writes its messages", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      ...once,
      process: (n: number, { emit, attempt }) => {
        for (let nth = 0; nth < attempt; nth++) emit("email", `${n} in attempt ${attempt}`);
        if (n === 0 && attempt < 3) throw new TransientError("not yet");
        if (n === 1) throw new PermanentError("never");
        if (n === 2) return skipped();
        if (n === 3) return failed(new PermanentError("no"));
        return undefined;
      },
    });
    await (await engine.submit(pipeline, numbers(5))).wait();
    expect(await readIds(engine)).toEqual(["0/0/1/0", "0/0/1/1", "0/0/1/2", "0/2/1/0", "0/4/1/0"]);
    const bodies = (await readAll(engine)).map(({ data }) => data as string);
    expect(bodies.filter((body) => body.startsWith("0"))).toEqual(
      Array.from({ length: 3 }, () => "0 in attempt 3"),
    );
  });

  test("a deferred item drops its messages", async ({ rig }) => {
    const engine = await rig.start();
    let calls = 0;
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      process: (_n: number, { emit }) => {
        emit("email", calls);
        return calls++ === 0 ? later(1) : undefined;
      },
    });
    await (await engine.submit(pipeline, [0])).wait();
    expect(await readAll(engine)).toMatchObject([{ data: 1 }]);
  });

  test("a message keeps its value from the moment of emit()", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      process: (_n: number, { emit }) => {
        const body = { state: "new" };
        emit("email", body);
        body.state = "changed";
      },
    });
    await (await engine.submit(pipeline, [0])).wait();
    expect(await readAll(engine)).toMatchObject([{ data: { state: "new" } }]);
  });

  test("each item of processChunk emits on its own", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      ...once,
      processChunk: (items: readonly ChunkItem<number>[], { emit }) =>
        items.map((given) => {
          emit(given, "email", given.item);
          if (given.item === 0) emit({ ...given }, "email", "again");
          return given.item === 1 ? failed(new PermanentError("no")) : succeeded();
        }),
    });
    await (await engine.submit(pipeline, numbers(3))).wait();
    expect(await readIds(engine)).toEqual(["0/0/1/0", "0/0/1/1", "0/2/1/0"]);
  });

  test("an undeclared topic fails the item with a similar name", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email", "sms"],
      process: (n: number, { emit }) => emit(n === 0 ? "emial" : "fax", n),
    });
    const handle = await engine.submit(pipeline, numbers(2));
    await handle.wait();
    const letters = await collect(handle.deadLetters());
    expect(letters).toMatchObject([
      { code: "UNDECLARED", errorClass: "permanent", attempts: 1 },
      { code: "UNDECLARED" },
    ]);
    expect(letters.map(({ message }) => message)).toEqual([
      'there is no topic "emial" in topics of the step. Did you mean email?',
      'there is no topic "fax" in topics of the step. They are email, sms.',
    ]);
    expect(await engine.topics()).toEqual([]);
  });

  test("a message that is too large, one too many or not JSON is refused", async ({ rig }) => {
    const engine = await rig.start();
    const emits: ((emit: ItemContext["emit"]) => void)[] = [
      (emit) => emit("email", "x".repeat(1_048_576)),
      (emit) => emit("email", undefined),
      (emit) => emit("email", 1n),
      (emit) => {
        for (let n = 0; n <= MESSAGES_PER_ITEM_MAX; n++) emit("email", n);
      },
      (emit) => {
        for (let n = 0; n < 20; n++) emit("email", "x".repeat(1_000_000));
      },
    ];
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      maxRedrives: 0,
      process: (n: number, { emit }) => emits[n]?.(emit),
    });
    const handle = await engine.submit(pipeline, numbers(emits.length));
    await handle.wait();
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ code }) => code)).toEqual(letters.map(() => "BAD_MESSAGE"));
    const [count, size] = letters.slice(3).map(({ message }) => message);
    expect([letters.length, count, size]).toEqual([
      5,
      expect.stringContaining("more than 1000 messages"),
      expect.stringContaining("characters together"),
    ]);
    expect(await engine.topics()).toEqual([]);
  });

  test("emit() after the handler has returned throws, and nothing is written", async ({ rig }) => {
    const engine = await rig.start();
    const late = makeSignal();
    const thrown: unknown[] = [];
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      ...once,
      process: (n: number, { emit }) => {
        void late.wait.then(() => {
          try {
            emit("email", "late");
          } catch (error) {
            thrown.push(error);
          }
        });
        if (n === 1) throw new PermanentError("no");
      },
    });
    await (await engine.submit(pipeline, numbers(2))).wait();
    late.give();
    await late.wait;
    expect(thrown).toMatchObject([
      { code: "LATE_CALL", kind: "emit" },
      { code: "LATE_CALL", kind: "emit" },
    ]);
    expect(await engine.topics()).toEqual([]);
  });

  test("emit() of an abandoned handler is ignored", async ({ rig }) => {
    const engine = await rig.start({ abortGraceMs: 0 });
    const thrown: unknown[] = [];
    const pipeline = definePipeline({
      name: "mails",
      topics: ["email"],
      timeLimitMs: 20,
      retry: { attempts: 1 },
      maxRedrives: 0,
      process: (n: number, { emit, signal }) => {
        emit("email", "before");
        signal.addEventListener("abort", () => {
          setImmediate(() => {
            try {
              emit("email", n);
            } catch (error) {
              thrown.push(error);
            }
          });
        });
        return never();
      },
    });
    const handle = await engine.submit(pipeline, [0]);
    expect((await handle.wait()).counts.failed).toBe(1);
    expect(await engine.topics()).toEqual([]);
    expect(thrown.length === 0 || thrown[0] instanceof Error).toBe(true);
  });
});

describeOnStores("routes", (test) => {
  test("a succeeded item goes to the topic that its route returns", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "campaign",
      topics: {
        emit: ["email", "sms"],
        route: ({ channel }: { channel: string }, result) =>
          channel === "none" || result === "hidden" ? null : channel,
      },
      ...once,
      process: ({ text }: { channel: string; text?: string }, { emit }) => {
        if (text === "skip") return skipped();
        if (text === "hi") emit("sms", "first");
        return text;
      },
    });
    const handle = await engine.submit(pipeline, [
      { channel: "email" },
      { channel: "sms", text: "hi" },
      { channel: "none" },
      { channel: "email", text: "hidden" },
      { channel: "email", text: "skip" },
      { channel: "fax" },
    ]);
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 4, skipped: 1, failed: 1 });
    expect(await readAll(engine)).toMatchObject([
      { id: `${handle.id}/0/0/1/route`, data: { channel: "email" } },
    ]);
    expect(await readAll(engine, "sms")).toMatchObject([
      { id: `${handle.id}/0/1/1/0`, data: "first" },
      { id: `${handle.id}/0/1/1/route`, data: "hi" },
    ]);
    expect(await collect(handle.deadLetters())).toMatchObject([{ code: "UNDECLARED", item: 5 }]);
  });

  test("an item fails when its route throws", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "campaign",
      topics: {
        emit: ["email"],
        route: () => {
          throw new PermanentError("which way?", { code: "LOST_WAY" });
        },
      },
      ...once,
      process: (_n: number) => undefined,
    });
    const handle = await engine.submit(pipeline, [0]);
    await handle.wait();
    expect(await collect(handle.deadLetters())).toMatchObject([{ code: "LOST_WAY" }]);
  });
});

describeOnStores("errors topics", (test) => {
  test("each drive in which an item gives up writes a message", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "fragile",
      topics: { errors: "errors" },
      key: (n: number) => `n${n}`,
      retry: { attempts: 2, baseMs: 0, capMs: 0 },
      maxRedrives: 1,
      process: (n: number) => {
        if (n > 0) throw new TransientError("down", { code: "DOWN" });
      },
    });
    const handle = await engine.submit(pipeline, numbers(2));
    await handle.wait();
    expect(await readIds(engine, "errors")).toEqual(["0/1/1/error", "0/1/2/error"]);
    const [first] = await readAll(engine, "errors");
    expect(first?.data).toEqual({
      batch: handle.id,
      step: "fragile",
      item: 1,
      key: "n1",
      drive: 1,
      attempts: 2,
      code: "DOWN",
      class: "transient",
      message: "down",
    });
  });
});
