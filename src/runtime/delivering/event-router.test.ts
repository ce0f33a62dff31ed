/** The router: one handler for each event; no event is ignored except by choice. */
import { describe, expect, test } from "vitest";
import { RECORD_TYPES } from "../../core/batch/batch.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import { routeEvents } from "./event-router.ts";

function makeEvent(type: string, data: BatchEvent["data"] = {}): BatchEvent {
  const at = "2026-01-01T00:00:00.000Z";
  return { id: "b-1/3", batch: "b-1", seq: 3, type: type as BatchEvent["type"], at, data };
}

describe("a router", () => {
  test("gives each event to its handler only", async () => {
    const heard: string[] = [];
    const handle = routeEvents({
      "batch.ended": ({ data }) => void heard.push(`ended ${data.state}`),
      "slicing.finished": ({ data, id }) => void heard.push(`${id} has ${data.items}`),
    });
    await handle(makeEvent("slicing.finished", { items: 3, chunks: 1 }));
    await handle(makeEvent("batch.ended", { state: "succeeded" }));
    expect(heard).toEqual(["b-1/3 has 3", "ended succeeded"]);
  });

  test("waits for its handler, and fails with it", async () => {
    const handle = routeEvents({
      "batch.ended": async () => {
        await Promise.resolve();
        throw new Error("no paper");
      },
    });
    await expect(handle(makeEvent("batch.ended"))).rejects.toThrow("no paper");
  });

  test("ignores the known events that it does not name, by default and by choice", async () => {
    const one = routeEvents({ "batch.ended": () => undefined });
    const two = routeEvents({ "batch.ended": () => undefined, otherwise: "ignore" });
    for (const type of RECORD_TYPES) {
      await expect(one(makeEvent(type))).resolves.toBeUndefined();
      await expect(two(makeEvent(type))).resolves.toBeUndefined();
    }
  });

  test("refuses them if configured so", async () => {
    const handle = routeEvents({ "batch.ended": () => undefined, otherwise: "refuse" });
    await expect(handle(makeEvent("batch.started"))).rejects.toMatchObject({
      code: "UNKNOWN_EVENT",
      message: "the router has no handler for b-1/3, a batch.started",
    });
  });

  test.each(["batch.from_the_future", "toString", "__proto__", "otherwise"])(
    "refuses an event of a type that this version does not know: %s",
    async (type) => {
      const handle = routeEvents({ "batch.ended": () => undefined, otherwise: "ignore" });
      await expect(handle(makeEvent(type))).rejects.toMatchObject({ code: "UNKNOWN_EVENT" });
    },
  );

  test("is not changed by a later change to its routes", async () => {
    const heard: string[] = [];
    const routes: Parameters<typeof routeEvents>[0] = {
      "batch.ended": () => void heard.push("first"),
    };
    const handle = routeEvents(routes);
    Object.assign(routes, { "batch.ended": () => void heard.push("second") });
    await handle(makeEvent("batch.ended"));
    expect(heard).toEqual(["first"]);
  });

  test("with a misspelled event is refused at once, with a suggestion", () => {
    const routes = { "batch.endd": () => undefined, "batch.ended": 5, otherwise: "maybe" };
    expect(() => routeEvents(routes as never)).toThrow(
      expect.objectContaining({
        code: "BAD_OPTION",
        field: "routes",
        message: [
          "the router has 3 problems:",
          '  - "batch.endd" is not an event. Did you mean batch.ended?',
          "  - batch.ended must be a function, for example (event) => { ... }",
          '  - otherwise must be "ignore" or "refuse"',
        ].join("\n"),
      }) as Error,
    );
  });

  test("that names no event is refused", () => {
    expect(() => routeEvents({})).toThrow("it names no event");
    expect(() => routeEvents({ otherwise: "refuse" })).toThrow("it names no event");
    expect(() => routeEvents(null as never)).toThrow("it names no event");
  });
});
