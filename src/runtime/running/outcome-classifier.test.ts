import { describe, expect, test } from "vitest";
import type { ErrorClass } from "../../core/base/errors.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { OutcomeClassifier } from "./outcome-classifier.ts";
import { failed, later } from "../pipeline/outcomes.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import { StopSignal, TimeLimitSignal } from "../system/stop-signals.ts";

interface RigOptions {
  readonly key?: (item: unknown) => string;
  readonly classify?: (error: unknown) => ErrorClass | null;
}

function makeRig({ key = () => "k", classify }: RigOptions = {}) {
  const fatal: unknown[] = [];
  const logged: string[] = [];
  const lease = {
    batch: "b-1",
    step: 0,
    chunk: 0,
    fence: 1,
    start: 0,
    end: 2,
    locator: null,
    outcomes: createOutcomeMap(2),
    histories: [],
    overrides: [],
    guarded: false,
    final: false,
  };
  const run = new ChunkRun(lease, { leaseUntil: 15_000, now: 0 });
  const [step] = definePipeline({
    name: "p",
    key,
    ...(classify && { classify }),
    process: () => undefined,
  }).steps;
  const random = { next: () => 0.5, id: () => "aaaaaaaaaaaa" };
  const judge = new OutcomeClassifier({
    step,
    random,
    log: ({ event }) => void logged.push(event),
    onFatal: (error) => void fatal.push(error),
    onThrottled: () => undefined,
    onOutage: () => undefined,
  });
  return { run, judge, fatal, logged };
}

describe("a handler that returns its signal's reason as a failure", () => {
  test("has not failed when it was stopped: the item goes back", () => {
    const { run, judge } = makeRig();
    judge.note(run, 0, "item", failed(new StopSignal("the worker is stopping")));
    expect(run.makeReport("yield").failures).toEqual([]);
    expect(run.isPending(0)).toBe(true);
  });

  test("has exceeded its time limit when the signal says so", () => {
    const { run, judge } = makeRig();
    judge.note(run, 0, "item", failed(new TimeLimitSignal(500)));
    const [failure] = run.makeReport("yield").failures;
    expect(failure).toMatchObject({ code: "TIME_LIMIT", errorClass: "transient" });
  });
});

describe("an item that says `later`", () => {
  test("runs again after that time: no outcome, no failure, no attempt", () => {
    const { run, judge } = makeRig();
    judge.note(run, 0, "item", later(400));
    const report = run.makeReport("yield");
    expect(report.deferrals).toEqual([{ index: 0, key: "k", inMs: 400 }]);
    expect(report.failures).toEqual([]);
    expect(run.isPending(0)).toBe(true);
    expect(run.countAttempts(0)).toBe(0);
  });

  test.each([
    [0, 0],
    [0.2, 1],
    [1_500.5, 1_501],
    [-5, 0],
    [Number.NaN, 0],
    [Number.POSITIVE_INFINITY, 86_400_000],
    [86_400_001, 86_400_000],
    ["500" as unknown as number, 500],
    ["soon" as unknown as number, 0],
  ])("in %s ms waits %i ms: a whole number, and bounded", (inMs, expected) => {
    const { run, judge } = makeRig();
    judge.note(run, 0, "item", later(inMs));
    expect(run.makeReport("yield").deferrals[0]?.inMs).toBe(expected);
  });

  test("also if its key cannot be read", () => {
    const { run, judge } = makeRig({
      key: () => {
        throw new Error("no key");
      },
    });
    judge.note(run, 0, "item", later(5));
    expect(run.makeReport("yield").deferrals).toEqual([{ index: 0, key: null, inMs: 5 }]);
  });
});

describe("a step that classifies errors itself", () => {
  const classify = (error: unknown): ErrorClass | null => {
    const { message } = error as Error;
    return message === "bug" ? null : (message as ErrorClass);
  };

  test.each(["permanent", "transient", "unexpected"] as const)("decides: %s", (errorClass) => {
    const { run, judge } = makeRig({ classify });
    judge.fail(run, 0, "item", Object.assign(new Error(errorClass), { status: 404 }), null);
    expect(run.makeReport("yield").failures).toMatchObject([{ errorClass, code: "HTTP_404" }]);
  });

  test("may stop the worker, and the item goes back", () => {
    const { run, judge, fatal } = makeRig({ classify });
    const error = new Error("fatal");
    judge.fail(run, 0, "item", error, null);
    expect(fatal).toEqual([error]);
    expect([run.makeReport("yield").failures, run.isPending(0)]).toEqual([[], true]);
  });

  test("leaves the error to its shape if it returns nothing", () => {
    for (const answer of [() => null, () => undefined, () => "odd", () => 7]) {
      const { run, judge, logged } = makeRig({ classify: answer as () => null });
      judge.fail(run, 0, "item", Object.assign(new Error("x"), { status: 404 }), null);
      expect(run.makeReport("yield").failures).toMatchObject([{ errorClass: "permanent" }]);
      expect(logged).toEqual(["item.gave_up"]);
    }
  });

  test("is not called for a time limit, which is ours", () => {
    const { run, judge } = makeRig({ classify: () => "permanent" });
    judge.fail(run, 0, "item", new Error("aborted"), new TimeLimitSignal(5));
    expect(run.makeReport("yield").failures).toMatchObject([{ errorClass: "transient" }]);
  });

  test("does not hide the failure if it throws", () => {
    const { run, judge, logged } = makeRig({
      classify: () => {
        throw new Error("a bug of its own");
      },
    });
    judge.fail(run, 0, "item", Object.assign(new Error("x"), { status: 404 }), null);
    expect(run.makeReport("yield").failures).toMatchObject([{ errorClass: "permanent" }]);
    expect(logged).toEqual(["item.classify_failed", "item.gave_up"]);
  });
});

test("an item whose handler was stopped has not failed: it counts as not run", () => {
  const { run, judge } = makeRig();
  judge.fail(run, 0, "item", new Error("aborted"), new StopSignal("its batch is being stopped"));
  expect(run.makeReport("yield")).toMatchObject({ failures: [], deferrals: [] });
  expect([run.isPending(0), run.unreported]).toEqual([true, 0]);
});

test("an object that throws on every access is a failure like any other", () => {
  const trap = (): never => {
    throw new Error("a trap");
  };
  const { run, judge, logged } = makeRig();
  judge.fail(run, 0, "item", new Proxy({}, { get: trap, getPrototypeOf: trap, has: trap }), null);
  expect(run.makeReport("yield").failures).toMatchObject([{ index: 0 }]);
  expect(logged).toContain("item.unexpected_error");
});
