import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { guardItems, StallGuard } from "./stall-guard.ts";

const LIMIT_MS = 1_000;

describe("a stall guard", () => {
  test("returns the answer of a call that finishes in time", async () => {
    const guard = new StallGuard(new ManualClock(), LIMIT_MS);
    expect(await guard.ask(async () => "answer")).toBe("answer");
    await expect(guard.ask(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
    guard.stop();
  });

  test("gives up on a call that takes longer than the limit, counted from its own start", async () => {
    const clock = new ManualClock();
    const guard = new StallGuard(clock, LIMIT_MS);
    await guard.ask(async () => {
      clock.advance(LIMIT_MS - 1);
    });
    let isOver = false;
    const hanging = guard.ask(() => Promise.withResolvers<never>().promise);
    const refused = expect(
      hanging.finally(() => {
        isOver = true;
      }),
    ).rejects.toMatchObject({ errorClass: "transient", code: "TIME_LIMIT" });
    clock.advance(LIMIT_MS - 1);
    await clock.turn();
    expect(isOver).toBe(false);
    clock.advance(1);
    await refused;
    guard.stop();
  });

  test("does not blame a source for the time that the store takes", async () => {
    const clock = new ManualClock();
    const guard = new StallGuard(clock, LIMIT_MS);
    const store = Promise.withResolvers<string>();
    const asked = guard.ask(async () => {
      const read = await guard.callStore(() => store.promise);
      clock.advance(LIMIT_MS - 1);
      return read;
    });
    for (let n = 0; n < 10; n++) {
      clock.advance(LIMIT_MS);
      await clock.turn();
    }
    store.resolve("at last");
    expect(await asked).toBe("at last");
    guard.stop();
  });

  test("allows a slow source, as long as each item comes in time", async () => {
    const clock = new ManualClock();
    const guard = new StallGuard(clock, LIMIT_MS);
    async function* slow(): AsyncGenerator<number> {
      for (let n = 0; n < 5; n++) {
        clock.advance(LIMIT_MS - 1);
        yield n;
      }
    }
    const items: number[] = [];
    for await (const item of guardItems(slow(), guard)) items.push(item);
    expect(items).toEqual([0, 1, 2, 3, 4]);
  });

  test("does not wait for the end of a source that hangs", async () => {
    const clock = new ManualClock();
    const guard = new StallGuard(clock, LIMIT_MS);
    async function* hanging(): AsyncGenerator<number> {
      yield 1;
      await Promise.withResolvers<never>().promise;
    }
    const items = guardItems(hanging(), guard);
    expect((await items.next()).value).toBe(1);
    const refused = expect(items.next()).rejects.toMatchObject({ code: "TIME_LIMIT" });
    await clock.turn();
    clock.advance(LIMIT_MS);
    await refused;
  });
});
