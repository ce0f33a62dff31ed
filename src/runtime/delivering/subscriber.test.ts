/** The options of a subscriber, and that it takes one event at a time. */
import { expect, test } from "vitest";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import type { SinkContext } from "../../ports/sink.ts";
import type { Delivery } from "./stream.ts";
import { Subscriber } from "./subscriber.ts";

const listen = (): void => undefined;
const CONTEXT = {} as SinkContext;
const makeEvent = (seq: number): BatchEvent => ({
  id: `b-1/${seq}`,
  batch: "b-1",
  seq,
  type: "batch.ended",
  at: "2026-01-01T00:00:00.000Z",
  data: {},
});

test("a subscriber in code takes every event from the beginning, with unlimited retries", () => {
  const subscriber = new Subscriber("audit", listen);
  expect(subscriber.retry.attempts).toBe(Number.POSITIVE_INFINITY);
  expect(subscriber.since).toBe("beginning");
  expect(subscriber.wants("batch.ended")).toBe(true);
  expect(subscriber.wants("batch.from_the_future")).toBe(true);
});

test("a sink has its own events and attempts, and options take precedence", () => {
  const sink = {
    kind: "test",
    target: "nowhere",
    events: ["batch.ended"],
    retry: { attempts: 8, baseMs: 5, capMs: 50 },
    deliver: async () => undefined,
  } as const;
  const plain = new Subscriber("hook", sink);
  expect(plain.retry).toEqual(sink.retry);
  expect([plain.wants("batch.ended"), plain.wants("batch.started")]).toEqual([true, false]);
  const changed = new Subscriber("hook", sink, {
    attempts: 2,
    backoff: { capMs: 9 },
    events: ["batch.started"],
  });
  expect(changed.retry).toEqual({ attempts: 2, baseMs: 5, capMs: 9 });
  expect([changed.wants("batch.ended"), changed.wants("batch.started")]).toEqual([false, true]);
});

test("all problems of a subscriber are reported at once", () => {
  const options = { attempts: 0, events: ["batch.endet"], since: "yesterday", atempts: 3 };
  const make = (): unknown => new Subscriber("my mail", "sendmail" as never, options as never);
  expect(make).toThrow(
    expect.objectContaining({
      code: "BAD_OPTION",
      field: "subscriber",
      message: [
        'the subscriber "my mail" has 6 problems:',
        "  - atempts is not an option. Did you mean attempts?",
        "  - its name must have 1 to 128 letters, digits or the characters . _ : @ / -",
        "  - it must be a function or a sink",
        '  - events: "batch.endet" is not an event. Did you mean batch.ended?',
        "  - attempts must be a whole number from 1 to 1000 (got 0)",
        '  - since must be "beginning" or "now"',
      ].join("\n"),
    }) as Error,
  );
});

function makeDelivery(seq: number): Delivery {
  const { id, batch, type } = makeEvent(seq);
  return { position: seq, id, batch, type, open: () => makeEvent(seq) };
}

test("a subscriber takes one event at a time, also when two are delivered at once", async () => {
  const log: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const subscriber = new Subscriber("audit", async ({ seq }) => {
    log.push(`in ${seq}`);
    if (seq === 1) await promise;
    log.push(`out ${seq}`);
    if (seq === 1) throw new Error("not this one");
  });
  const first = subscriber.deliver([makeDelivery(1)], CONTEXT);
  const second = subscriber.deliver([makeDelivery(2)], CONTEXT);
  resolve();
  await expect(first).rejects.toThrow("not this one");
  await second;
  expect(log).toEqual(["in 1", "out 1", "in 2", "out 2"]);
});
