import { describe, expect, test } from "vitest";
import { FIRST_LOOK } from "../../core/batch/watch.ts";
import type { ItemContext } from "./contexts.ts";
import { later, succeeded } from "./outcomes.ts";
import { makeWaitStep, type WaitFor } from "./wait-step.ts";

/** An item whose last checkpoint is stored, and a count that the test sets. */
class Watched {
  count = 0;
  last: { readonly name: string; readonly data: unknown } | null = null;
  readonly #process: ReturnType<typeof makeWaitStep>["process"];

  constructor(waitFor: Omit<WaitFor, "count"> = {}) {
    this.#process = makeWaitStep({ ...waitFor, count: () => this.count }).process;
  }

  look(count: number): Promise<unknown> {
    this.count = count;
    const context = {
      lastCheckpoint: this.last,
      checkpoint: async (name: string, data: unknown) => {
        this.last = { name, data: JSON.parse(JSON.stringify(data)) as unknown };
      },
    };
    return this.#process(null, context as unknown as ItemContext);
  }
}

const STALLED = { code: "STALLED", name: "PermanentError" };

describe("a step that waits for a count", () => {
  test("to fall is done at zero, and the delay depends on the rest", async () => {
    const watched = new Watched();
    expect(await watched.look(600)).toEqual(later(120_000));
    expect(await watched.look(499)).toEqual(later(60_000));
    expect(await watched.look(0)).toEqual(succeeded({ count: 0 }));
  });

  test("to rise is done when it reaches its target or passes it", async () => {
    expect(await new Watched({ target: 10 }).look(10)).toEqual(succeeded({ count: 10 }));
    expect(await new Watched({ target: 10 }).look(11)).toEqual(succeeded({ count: 11 }));
    const watched = new Watched({ target: 5_010 });
    expect(await watched.look(10)).toEqual(later(300_000));
    expect(await watched.look(5_009)).toEqual(later(60_000));
  });

  test("asks for its target at every look", async () => {
    let target = 10;
    const watched = new Watched({ target: () => Promise.resolve(target) });
    expect(await watched.look(5)).toEqual(later(60_000));
    target = 6;
    expect(await watched.look(6)).toEqual(succeeded({ count: 6 }));
  });

  test("that does not change is checked again, and fails after three stalls", async () => {
    const watched = new Watched();
    await watched.look(50);
    for (let stall = 1; stall <= 3; stall++) {
      expect(await watched.look(50)).toEqual(later(120_000));
      expect(watched.last?.data).toEqual({ previous: 50, stalls: stall });
    }
    await expect(watched.look(50)).rejects.toMatchObject({
      ...STALLED,
      message: "the count stayed at 50 (target 0) for 4 looks in a row",
    });
  });

  test("forgets its stalls with any progress", async () => {
    const watched = new Watched({ stalls: 1 });
    await watched.look(50);
    await watched.look(50);
    expect(await watched.look(49)).toEqual(later(60_000));
    expect(await watched.look(49)).toEqual(later(120_000));
    await expect(watched.look(49)).rejects.toMatchObject(STALLED);
  });

  test("starts a new watch when it is redriven", async () => {
    const watched = new Watched({ stalls: 0 });
    await watched.look(50);
    await expect(watched.look(50)).rejects.toMatchObject(STALLED);
    expect(watched.last?.data).toEqual(FIRST_LOOK);
    expect(await watched.look(50)).toEqual(later(60_000));
  });

  test("continues from the last look, in any process", async () => {
    const first = new Watched();
    await first.look(50);
    await first.look(50);
    const second = new Watched();
    second.last = first.last;
    await second.look(50);
    expect(second.last?.data).toEqual({ previous: 50, stalls: 2 });
  });

  test("uses configured delays, and defaults for the others", async () => {
    const watched = new Watched({ delays: { stallMs: 7 } });
    expect(await watched.look(50)).toEqual(later(60_000));
    expect(await watched.look(50)).toEqual(later(7));
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, "5", undefined])(
    "fails when the count is %s",
    async (count) => {
      const watched = new Watched();
      await expect(watched.look(count as number)).rejects.toMatchObject({
        code: "BAD_FUNCTION_RESULT",
      });
      const aimless = new Watched({ target: (() => count) as () => number });
      await expect(aimless.look(1)).rejects.toThrow(/waitFor.target returned/);
    },
  );

  test("passes on an error of the count function", async () => {
    const { process } = makeWaitStep({ count: () => Promise.reject(new Error("503")) });
    await expect(process(null, {} as ItemContext)).rejects.toThrow();
  });
});
