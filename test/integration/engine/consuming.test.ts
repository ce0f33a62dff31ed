/** Consumers of topics: every message in order and at least once, and no message kept for ever. */
import { expect } from "vitest";
import { PermanentError } from "../../../src/core/base/errors.ts";
import type { TopicMessage } from "../../../src/ports/store/topic-message.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";

const AT_ONCE = { baseMs: 0, capMs: 0 };

const pipeline = definePipeline({
  name: "mails",
  topics: ["email"],
  concurrency: 1,
  process: (n: number, { emit }) => emit("email", n),
});

async function emit(engine: Engine, items: readonly number[]): Promise<string> {
  const handle = await engine.submit(pipeline, items);
  await handle.wait();
  return handle.id;
}

async function catchUp(engine: Engine): Promise<void> {
  expect(await engine.waitForSubscribers({ withinMs: 20_000 })).toBe(true);
}

describeOnStores("consuming", (test) => {
  test("a consumer gets every message in order, including older ones", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, [0, 1]);
    const heard: unknown[] = [];
    engine.consume("email", "mailer", ({ data }) => void heard.push(data));
    await emit(engine, [2]);
    await catchUp(engine);
    expect(heard).toEqual([0, 1, 2]);
    expect(await engine.topics()).toMatchObject([
      { topic: "email", messages: 3, groups: [{ group: "mailer", lag: 0 }] },
    ]);
  });

  test("a new group begins where it is told, and an existing one where it was", async ({ rig }) => {
    const first = await rig.start();
    await emit(first, [0, 1, 2]);
    const heard: Record<string, unknown[]> = { now: [], after: [] };
    first.consume("email", "now", ({ data }) => void heard["now"]?.push(data), { since: "now" });
    first.consume("email", "after", ({ data }) => void heard["after"]?.push(data), { since: 1 });
    await catchUp(first);
    await emit(first, [3]);
    await catchUp(first);
    expect(heard).toEqual({ now: [3], after: [1, 2, 3] });
    await first.close();
    const second = await rig.startBeside();
    second.consume("email", "now", ({ data }) => void heard["now"]?.push(data));
    await catchUp(second);
    expect(heard["now"]).toEqual([3]);
  });

  test("several messages are delivered together and acknowledged together", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, numbers(25));
    const sizes: number[] = [];
    const heard: unknown[] = [];
    const take = (messages: readonly TopicMessage[]): void => {
      sizes.push(messages.length);
      heard.push(...messages.map(({ data }) => data));
    };
    engine.consume("email", "mailer", take, { batch: 10 });
    await catchUp(engine);
    expect(sizes).toEqual([10, 10, 5]);
    expect(heard).toEqual(numbers(25));
  });

  test("a handler that throws gets the message again, and no other message overtakes it", async ({
    rig,
  }) => {
    const engine = await rig.start();
    await emit(engine, [0, 1]);
    const heard: unknown[] = [];
    const take = ({ data }: TopicMessage): void => {
      heard.push(data);
      if (heard.length < 3) throw new Error("not now");
    };
    engine.consume("email", "mailer", take, { backoff: AT_ONCE });
    await catchUp(engine);
    expect(heard).toEqual([0, 0, 0, 1]);
  });

  test("stores a message that is given up as undelivered, and can retry it", async ({ rig }) => {
    const engine = await rig.start();
    const id = await emit(engine, numbers(3));
    let isDown = true;
    const heard: unknown[] = [];
    const take = ({ data }: TopicMessage): void => {
      if (isDown && data === 1) throw new PermanentError("no such address", { code: "BOUNCED" });
      heard.push(data);
    };
    engine.consume("email", "mailer", take);
    await catchUp(engine);
    expect(heard).toEqual([0, 2]);
    const [letter] = await collect(engine.undelivered());
    expect(letter).toMatchObject({
      reader: "email#mailer",
      event: `${id}/0/1/1/0`,
      type: "email",
      batch: id,
      attempts: 1,
      code: "BOUNCED",
    });
    await expect(engine.redeliver(letter!.id)).rejects.toThrow("no such address");
    isDown = false;
    await engine.redeliver(letter!.id);
    expect(heard).toEqual([0, 2, 1]);
    expect(await collect(engine.undelivered())).toEqual([]);
  });

  test("only the bad message of a refused group is given up", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, numbers(5));
    const taken: unknown[] = [];
    const take = (messages: readonly TopicMessage[]): void => {
      if (messages.some(({ data }) => data === 2)) throw new PermanentError("not that one");
      taken.push(...messages.map(({ data }) => data));
    };
    engine.consume("email", "mailer", take, { batch: 4 });
    await catchUp(engine);
    expect(taken).toEqual([0, 1, 3, 4]);
    expect(await collect(engine.undelivered())).toMatchObject([{ position: 3 }]);
  });

  test("a handler that hangs is timed out and called again", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, [0]);
    const signals: AbortSignal[] = [];
    engine.consume(
      "email",
      "mailer",
      (_message, { signal }) => (signals.push(signal) === 1 ? never() : undefined),
      { timeLimitMs: 20, backoff: AT_ONCE },
    );
    await catchUp(engine);
    expect(signals).toHaveLength(2);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
    expect(rig.logs.filter(({ event }) => event === "delivery.handler_failed")).toMatchObject([
      { message: expect.stringContaining("did not return within 20 ms") as string },
    ]);
  });

  test("one of two consumers of a group stands by and takes over", async ({ rig }) => {
    const first = await rig.start();
    const second = await rig.startBeside();
    const heard: string[] = [];
    const hold = makeSignal();
    first.consume("email", "mailer", async ({ data }) => {
      heard.push(`first ${JSON.stringify(data)}`);
      await hold.wait;
    });
    await emit(first, [0]);
    await until(() => heard.length === 1);
    second.consume(
      "email",
      "mailer",
      ({ data }) => void heard.push(`second ${JSON.stringify(data)}`),
    );
    await emit(first, [1]);
    await first.close({ drainMs: 0 });
    hold.give();
    await catchUp(second);
    expect(heard).toEqual(["first 0", "second 0", "second 1"]);
  });

  test("a replay while a consumer runs is not lost", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, numbers(4));
    const heard: unknown[] = [];
    const hold = makeSignal();
    engine.consume("email", "mailer", async ({ data }) => {
      heard.push(data);
      if (heard.length === 3) await hold.wait;
    });
    await until(() => heard.length === 3);
    await engine.topic("email").replay("mailer", 1);
    hold.give();
    await catchUp(engine);
    expect(heard).toEqual([0, 1, 2, 0, 1, 2, 3]);
  });

  test("all invalid names and options are reported at once", async ({ rig }) => {
    const engine = await rig.start();
    const options = { batch: 0, timeLimitMs: -1, since: "later", atempts: 3 } as never;
    expect(() => engine.consume("e mail", "", "unknown" as never, options)).toThrow(
      expect.objectContaining({
        code: "BAD_OPTION",
        field: "consumer",
        message: [
          'the consumer "" of e mail has 7 problems:',
          "  - atempts is not an option. Did you mean attempts?",
          "  - its topic must be 1 to 100 letters, digits, dots, dashes or underscores",
          "  - its group must be 1 to 100 letters, digits, dots, dashes or underscores",
          "  - it must be a function or a sink",
          "  - batch must be a whole number from 1 to 10000 (got 0)",
          "  - timeLimitMs must be a whole number from 1 to 86400000 (got -1)",
          '  - since must be "beginning", "now" or a position from 0 on',
        ].join("\n"),
      }) as Error,
    );
    engine.consume("email", "mailer", () => undefined);
    expect(() => engine.consume("email", "mailer", () => undefined)).toThrow(
      expect.objectContaining({ code: "SUBSCRIBER_TAKEN" }) as Error,
    );
  });
});

describeOnStores("reading a topic without a consumer", (test) => {
  test("a group gets the same messages until it acknowledges them", async ({ rig }) => {
    const engine = await rig.start();
    await emit(engine, numbers(5));
    const topic = engine.topic("email");
    const page = await topic.read({ group: "puller", limit: 2 });
    expect(page.map(({ data }) => data)).toEqual([0, 1]);
    expect(await topic.read({ group: "puller", limit: 2 })).toEqual(page);
    expect((await topic.look()).groups).toEqual([{ group: "puller", position: 0, lag: 5 }]);
    await topic.acknowledge("puller", page.at(-1)?.position ?? 0);
    await topic.acknowledge("puller", 1);
    expect((await topic.read({ group: "puller" })).map(({ data }) => data)).toEqual([2, 3, 4]);
    await topic.replay("puller", 2);
    expect((await topic.read({ group: "puller" })).map(({ data }) => data)).toEqual([1, 2, 3, 4]);
    expect((await topic.read({ after: 4 })).map(({ data }) => data)).toEqual([4]);
    expect(await topic.forget("puller")).toBe(true);
    expect(await topic.forget("puller")).toBe(false);
  });

  test("an unknown message cannot be acknowledged, and an unknown group cannot be rewound", async ({
    rig,
  }) => {
    const engine = await rig.start();
    await emit(engine, [0]);
    const topic = engine.topic("email");
    const missing = (kind: string): Error =>
      expect.objectContaining({ code: "NOT_FOUND", kind }) as Error;
    const bad = (field: string): Error =>
      expect.objectContaining({ code: "BAD_OPTION", field }) as Error;
    await expect(topic.acknowledge("puller", 9)).rejects.toThrow(missing("message"));
    await expect(topic.acknowledge("puller", -1)).rejects.toThrow(bad("position"));
    await expect(topic.read({ limit: 0 })).rejects.toThrow(bad("limit"));
    await expect(topic.replay("stranger", 1)).rejects.toThrow(missing("group"));
    expect(() => engine.topic("no topic")).toThrow(bad("topic"));
    expect((await topic.read({ group: "puller" })).map(({ data }) => data)).toEqual([0]);
  });
});
