import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { toWords } from "../../../test/support/outcome-words.ts";
import { createOutcomeMap, SUCCEEDED, setOutcome } from "../../core/items/outcome-map.ts";
import type { ItemHistory, LeasedChunk } from "../../ports/store/worker-store.ts";
import { ChunkRun } from "./chunk-run.ts";
import { WorkerHealth } from "../health/worker-health.ts";
import { type FoundLease, SharedLeases } from "../health/shared-leases.ts";

const FAILURE = {
  errorClass: "transient",
  code: "ETIMEDOUT",
  message: "late",
} as const;

function makeRun(
  items: number,
  changes: Partial<LeasedChunk> = {},
  onUrgent: () => void = () => undefined,
): ChunkRun {
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
    overrides: [],
    guarded: false,
    final: false,
    ...changes,
  };
  return new ChunkRun(lease, { leaseUntil: 15_000, now: 0, onUrgent });
}

const history = (index: number, changes: Partial<ItemHistory>): ItemHistory => ({
  index,
  attempts: 1,
  deaths: 0,
  dueInMs: 0,
  checkpoint: null,
  drive: 1,
  ...changes,
});

function takeAll(run: ChunkRun): number[] {
  const taken: number[] = [];
  for (let index = run.takeNext(); index !== -1; index = run.takeNext()) taken.push(index);
  return taken;
}

describe("a leased chunk", () => {
  test("hands out items that are neither finished nor in back-off", () => {
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

  test("reports the outcomes of its items, under its fence", () => {
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

  test("does not repeat an outcome that the store refused, and does not start the item again", () => {
    const run = makeRun(3);
    const statements = [{ sql: "SELECT 1", values: [] }];
    const commit = (index: number) => ({ index, key: null, attempts: 1, retryInMs: 5, statements });
    run.takeNext();
    run.takeNext();
    run.succeed(0, null, undefined, [], commit(0));
    run.skip(1, [], commit(1));
    const first = run.makeReport("keep");
    expect(first.commits).toEqual([commit(0), commit(1)]);
    const refused = [
      { index: 0, dead: false },
      { index: 1, dead: true },
    ];
    run.markReported(first, "kept", 100, refused);
    expect(run.unreported).toBe(0);
    expect(takeAll(run)).toEqual([2]);
    const second = run.makeReport("yield");
    expect(toWords(second.outcomes, 3)).toEqual(["pending", "failed", "pending"]);
    expect(second.commits).toEqual([]);
  });

  test("keeps what happens while a report is under way for the next report", () => {
    const run = makeRun(4);
    run.succeed(0, null, 1);
    run.fail(1, null, 1, FAILURE, 10);
    const first = run.makeReport("keep");
    run.succeed(2, null, 2);
    run.fail(3, null, 1, FAILURE, null);
    expect(toWords(first.outcomes, 4)).toEqual(["succeeded", "pending", "pending", "pending"]);
    run.markReported(first, "kept", 100);
    expect(run.unreported).toBe(2);
    expect(run.reportedAt).toBe(100);
    const second = run.makeReport("keep");
    expect(second.results.map(({ index }) => index)).toEqual([2]);
    expect(second.failures.map(({ index }) => index)).toEqual([3]);
    run.markReported(second, "kept", 200);
    expect(run.unreported).toBe(0);
  });

  test("replaces its items by edited payloads", () => {
    const overrides = [{ index: 1, value: '{"n":"fixed"}' }];
    const run = makeRun(3, { overrides });
    let released = 0;
    const own = { count: 3, at: (n: number) => ({ n }), release: () => released++ };
    run.receive("lane", own);
    expect([0, 1, 2].map((n) => run.items.at(n))).toEqual([{ n: 0 }, { n: "fixed" }, { n: 2 }]);
    expect(run.items.count).toBe(3);
    run.release();
    expect(released).toBe(1);
  });

  test("knows the drive and the last checkpoint of each item", () => {
    const checkpoint = { name: "fetched", data: "7" };
    const run = makeRun(2, { histories: [history(1, { checkpoint, drive: 3 })] });
    expect([0, 1].map((index) => run.getDrive(index))).toEqual([1, 3]);
    expect([0, 1].map((index) => run.getCheckpoint(index))).toEqual([null, checkpoint]);
  });

  test("does not start a deferred item again in this lease", () => {
    const run = makeRun(3);
    expect(run.takeNext()).toBe(0);
    run.defer(0, "k", 400);
    run.defer(1, null, 250);
    expect(takeAll(run)).toEqual([2]);
    expect(run.unreported).toBe(2);
    const report = run.makeReport("yield");
    expect(report.deferrals).toEqual([
      { index: 0, key: "k", inMs: 400 },
      { index: 1, key: null, inMs: 250 },
    ]);
    expect(toWords(report.outcomes, 3)).toEqual(["pending", "pending", "pending"]);
    run.markReported(report, "kept", 1);
    expect(run.makeReport("yield").deferrals).toEqual([]);
  });

  test("lists the runnable items before any has run", () => {
    const outcomes = createOutcomeMap(4);
    setOutcome(outcomes, 1, SUCCEEDED);
    const histories = [history(2, { dueInMs: 500 }), history(3, { dueInMs: 0 })];
    expect([...makeRun(4, { outcomes, histories }).listRunnable()]).toEqual([0, 3]);
  });

  test("reports the content of an item only with its success", () => {
    const run = makeRun(4);
    for (const index of [0, 1, 2]) run.holdContent(index, `content-${index}`);
    run.succeed(0);
    run.skip(1);
    run.fail(2, null, 1, FAILURE, null);
    run.succeed(3);
    const report = run.makeReport("yield");
    expect(report.contents).toEqual([{ index: 0, content: "content-0" }]);
    run.markReported(report, "kept", 1);
    expect(run.makeReport("yield").contents).toEqual([]);
  });

  test("names the items whose handlers did not stop", () => {
    const run = makeRun(2);
    run.abandon(1);
    expect(run.makeReport("yield").abandoned).toEqual([1]);
  });

  test("announces starting items, without those that have ended meanwhile", () => {
    const run = makeRun(3);
    run.starting = [0, 1, 2];
    run.succeed(1);
    expect(run.makeReport("keep").starting).toEqual([0, 2]);
  });

  test.each([5n, () => 1, Symbol("x"), "x".repeat(1_048_577)])(
    "refuses a result that cannot be stored",
    (value) => {
      const run = makeRun(1);
      expect(() => run.succeed(0, null, value)).toThrow(/result/);
      expect(run.isPending(0)).toBe(true);
    },
  );

  test("releases its items", () => {
    const run = makeRun(1);
    let released = 0;
    run.receive("lane", { count: 1, at: () => "item", release: () => released++ });
    expect(run.items.at(0)).toBe("item");
    expect(run.facts.lane).toBe("lane");
    run.release();
    run.release();
    expect(released).toBe(1);
    expect(run.items.at(0)).toBeUndefined();
  });
});

describe("a checkpoint of a running item", () => {
  test("asks for a report at once, and is stored with it", async () => {
    let asked = 0;
    const run = makeRun(2, {}, () => asked++);
    const saved = run.saveCheckpoint(0, "k", "fetched", { bytes: 5 });
    expect([asked, run.isUrgent, run.unreported]).toEqual([1, true, 1]);
    const report = run.makeReport("keep");
    expect(report.checkpoints).toEqual([
      { index: 0, key: "k", name: "fetched", data: '{"bytes":5}' },
    ]);
    let done = false;
    void saved.then(() => {
      done = true;
    });
    await Promise.resolve();
    expect(done).toBe(false);
    run.markReported(report, "kept", 1);
    await saved;
    expect([run.isUrgent, run.unreported]).toEqual([false, 0]);
  });

  test("that came while a report was under way waits for the next one", async () => {
    const run = makeRun(2);
    const first = run.saveCheckpoint(0, null, "a", null);
    const report = run.makeReport("keep");
    const second = run.saveCheckpoint(1, null, "b", null);
    run.markReported(report, "kept", 1);
    await first;
    expect(run.isUrgent).toBe(true);
    const next = run.makeReport("keep");
    expect(next.checkpoints.map(({ name }) => name)).toEqual(["b"]);
    run.markReported(next, "kept", 2);
    await second;
  });

  test("is not stored when the store refuses its report", async () => {
    const run = makeRun(1);
    const saved = run.saveCheckpoint(0, null, "a", 1);
    run.markReported(run.makeReport("keep"), "lost", 1);
    await expect(saved).rejects.toThrow(/lease on its chunk was lost/);
    expect(run.lost).toBe(true);
  });

  test("is refused when the lease is lost, before or while it waits", async () => {
    const run = makeRun(1);
    const waiting = run.saveCheckpoint(0, null, "a", 1);
    run.lose();
    expect(run.lost).toBe(true);
    await expect(waiting).rejects.toThrow(/lease on its chunk was lost/);
    await expect(run.saveCheckpoint(0, null, "b", 2)).rejects.toThrow(/lease/);
    expect(run.makeReport("yield").checkpoints).toEqual([]);
  });

  test("is refused when its item has ended: an abandoned handler is never told that it was stored", async () => {
    const run = makeRun(2);
    const facts = { errorClass: "transient", code: "TIME_LIMIT", message: "too long" } as const;
    run.fail(0, null, 1, { ...facts }, null);
    await expect(run.saveCheckpoint(0, null, "a", 1)).rejects.toThrow(/has ended/);
    expect(run.makeReport("keep").checkpoints).toEqual([]);
    // A retried item continues from there.
    run.fail(1, null, 1, { ...facts }, 50);
    void run.saveCheckpoint(1, null, "b", 2);
    expect(run.makeReport("keep").checkpoints.map(({ index }) => index)).toEqual([1]);
  });
});

describe("a chunk whose lease another thread may renew", () => {
  test("sees the renewal before its lease expires, and is removed when the lease is lost", () => {
    const health = new WorkerHealth(new ManualClock());
    const page = new SharedLeases(health.leases.buffer);
    const { lease } = makeRun(1);
    const run = new ChunkRun(lease, { leaseUntil: 15_000, now: 0, health });
    const [found] = page.list();
    expect(found?.lease).toEqual({ batch: "b-1", step: 0, chunk: 2, fence: 7 });
    page.enterRenewal(found as FoundLease, 40_000);
    expect(run.isExpired(20_000)).toBe(false);
    expect(run.isLostAt(39_999)).toBe(false);
    expect(run.isLostAt(40_000)).toBe(true);
    expect(page.count()).toBe(0);
  });
});
