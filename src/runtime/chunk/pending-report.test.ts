import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import type { WorkResult } from "../../ports/store/worker-store.ts";
import { ChunkRun } from "./chunk-run.ts";
import { makeReport, sendReports } from "./pending-report.ts";

const KEPT: WorkResult = {
  reports: ["kept"],
  leased: [],
  nextDueInMs: null,
  ended: [],
  permits: null,
};

function makeRun(): ChunkRun {
  const lease = {
    batch: "b-1",
    step: 0,
    chunk: 0,
    fence: 1,
    start: 0,
    end: 4,
    locator: null,
    outcomes: createOutcomeMap(4),
    histories: [],
    overrides: [],
    guarded: true,
    final: true,
  };
  return new ChunkRun(lease, { leaseUntil: 15_000, now: 0 });
}

const failure = { errorClass: "permanent", code: "E", message: "m" } as const;

test("a report waits for the one under way, and repeats nothing of it", async () => {
  const run = makeRun();
  const clock = new ManualClock();
  run.fail(0, null, 1, failure, null);
  const { promise: answered, resolve: answer } = Promise.withResolvers<WorkResult>();
  const first = sendReports([makeReport(run, "keep")], clock, () => answered);
  const second = (async () => {
    while (run.reporting !== null) await run.reporting;
    return makeReport(run, "keep").report.failures.length;
  })();
  answer(KEPT);
  expect(await second).toBe(0);
  await first;
  expect(run.unreported).toBe(0);
});

test("a chunk that the store does not know any more is lost", async () => {
  const run = makeRun();
  const clock = new ManualClock();
  await sendReports([makeReport(run, "keep")], clock, async () => ({ ...KEPT, reports: ["lost"] }));
  expect([run.lost, run.reporting]).toEqual([true, null]);
});

test("when a report fails, its content stays for the next one", async () => {
  const run = makeRun();
  const clock = new ManualClock();
  run.fail(0, null, 1, failure, null);
  const reporting = sendReports([makeReport(run, "keep")], clock, () =>
    Promise.reject(new Error("gone")),
  );
  await expect(reporting).rejects.toThrow("gone");
  expect(run.reporting).toBeNull();
  expect(makeReport(run, "keep").report.failures).toHaveLength(1);
});
