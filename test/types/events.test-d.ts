/** The types of routed events: each handler gets the data of its own type, and no other. */
import { assertType, expectTypeOf, test } from "vitest";
import type { Counts } from "../../src/core/batch/counts.ts";
import {
  type EventData,
  type EventOf,
  routeEvents,
  type Sink,
  webhookSink,
  type BatchEvent,
} from "../../src/index.ts";

test("a handler's event has the data of its type", () => {
  const handler = routeEvents({
    "batch.submitted": ({ data }) => {
      expectTypeOf(data.key).toEqualTypeOf<string | null>();
    },
    "slicing.finished": async ({ data, type }) => {
      expectTypeOf(data.items).toEqualTypeOf<number>();
      expectTypeOf(type).toEqualTypeOf<"slicing.finished">();
    },
    "batch.ended": ({ data }) => {
      expectTypeOf(data.counts).toEqualTypeOf<Counts>();
      expectTypeOf(data.code).toEqualTypeOf<string | undefined>();
      // @ts-expect-error -- an ending has no items of its own
      assertType(data.items);
    },
    otherwise: "ignore",
  });
  expectTypeOf(handler).toEqualTypeOf<(event: BatchEvent) => void | Promise<void>>();
});

test("a handler in a place of its own names its event", () => {
  const mail = ({ data }: EventOf<"step.ended">): void => {
    expectTypeOf(data).toEqualTypeOf<EventData["step.ended"]>();
  };
  routeEvents({ "step.ended": mail });
  // @ts-expect-error -- it is the handler of another event
  routeEvents({ "batch.ended": mail });
});

test("a misspelled event or choice does not compile", () => {
  // @ts-expect-error -- there is no such event
  routeEvents({ "batch.endd": () => undefined });
  // @ts-expect-error -- there is no such choice
  routeEvents({ "batch.ended": () => undefined, otherwise: "maybe" });
});

test("a sink's events are known ones", () => {
  const secret = "a secret of more than 24 bytes";
  const url = "https://example.com";
  expectTypeOf(webhookSink({ url, secret, events: ["batch.ended"] })).toEqualTypeOf<Sink>();
  // @ts-expect-error -- there is no such event
  webhookSink({ url, secret, events: ["batch.endd"] });
});
