import { describe, expect, test } from "vitest";
import { toWords } from "../../test/support/outcome-words.ts";
import { createOutcomeMap, SUCCEEDED, setOutcome } from "../core/outcome-map.ts";
import type { ItemHistory, LeasedChunk } from "../ports/working.ts";
import { ChunkRun } from "./chunk-run.ts";

const FAILURE = {
  errorClass: "transient",
  code: "ETIMEDOUT",
  message: "late",
  retryAfterMs: null,
} as const;

function makeRun(items: number, changes: Partial<LeasedChunk> = {}): ChunkRun {
  const lease: LeasedChunk = {
    batch: "b-1",
    step: 0,
    chunk: 2,
    fence: 7,
    start: 10,
    end: 10 + items,
    locator: null,
    outcomes: createOutcomeMap(items),
    histories: [],
    careful: false,
    ...changes,
  };
  return new ChunkRun(lease, 15_000, 0);
}

const history = (index: number, changes: Partial<ItemHistory>): ItemHistory => ({
  index,
  attempts: 1,
  deaths: 0,
  dueInMs: 0,
  ...changes,
});

function takeAll(run: ChunkRun): number[] {
  const taken: number[] = [];
  for (let index = run.takeNext(); index !== -1; index = run.takeNext()) taken.push(index);
  return taken;
}

describe("a chunk in hand", () => {
  test("hands out what is neither done nor waiting for its time", () => {
    const outcomes = createOutcomeMap(5);
    setOutcome(outcomes, 1, SUCCEEDED);
    const histories = [history(2, { dueInMs: 500 }), history(3, { attempts: 3 })];
    const run = makeRun(5, { outcomes, histories });
    expect(takeAll(run)).toEqual([0, 3, 4]);
    expect([0, 3].map((index) => run.countAttempts(index))).toEqual([0, 3]);
    expect(run.finished).toBe(true);
  });

  test("is finished when nothing is left to start and nothing runs", () => {
    const run = makeRun(2);
    run.takeNext();
    run.inFlight = 1;
    expect(run.unstarted).toBe(1);
    run.skipRest();
    expect(run.finished).toBe(false);
    run.inFlight = 0;
    expect(run.finished).toBe(true);
  });

  test("tells what became of its items, under its fence", () => {
    const run = makeRun(4);
    takeAll(run);
    run.succeed(0, "key", { size: 5 });
    run.skip(1);
    run.fail(2, null, 2, FAILURE, 250);
    run.fail(3, "bad", 4, FAILURE, null);
    const report = run.makeReport("yield");
    expect(report).toMatchObject({ batch: "b-1", step: 0, chunk: 2, fence: 7, intent: "yield" });
    expect(toWords(report.outcomes, 4)).toEqual(["succeeded", "skipped", "pending", "failed"]);
    expect(report.results).toEqual([{ index: 0, key: "key", value: '{"size":5}' }]);
    expect(
      report.failures.map(({ index, attempts, retryInMs }) => [index, attempts, retryInMs]),
    ).toEqual([
      [2, 2, 250],
      [3, 4, null],
    ]);
  });

  test("keeps what happened while a report was under way for the next one", () => {
    const run = makeRun(4);
    run.succeed(0, null, 1);
    run.fail(1, null, 1, FAILURE, 10);
    const first = run.makeReport("keep");
    run.succeed(2, null, 2);
    run.fail(3, null, 1, FAILURE, null);
    expect(toWords(first.outcomes, 4)).toEqual(["succeeded", "pending", "pending", "pending"]);
    run.markReported(first, 100);
    expect(run.unreported).toBe(2);
    expect(run.reportedAt).toBe(100);
    const second = run.makeReport("keep");
    expect(second.results.map(({ index }) => index)).toEqual([2]);
    expect(second.failures.map(({ index }) => index)).toEqual([3]);
    run.markReported(second, 200);
    expect(run.unreported).toBe(0);
  });

  test.each([5n, () => 1, Symbol("x"), "x".repeat(1_048_577)])(
    "refuses a result that cannot be kept",
    (value) => {
      const run = makeRun(1);
      expect(() => run.succeed(0, null, value)).toThrow(/result/);
      expect(run.isPending(0)).toBe(true);
    },
  );

  test("lets go of its items", () => {
    const run = makeRun(1);
    let released = 0;
    run.arrive("lane", { count: 1, at: () => "item", release: () => released++ });
    expect(run.items.at(0)).toBe("item");
    expect(run.facts.lane).toBe("lane");
    run.release();
    run.release();
    expect(released).toBe(1);
    expect(run.items.at(0)).toBeUndefined();
  });
});
