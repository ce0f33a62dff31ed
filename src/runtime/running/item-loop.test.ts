import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { ItemLoop } from "./item-loop.ts";
import { silentLog } from "../system/log.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import type { StartRights } from "./item-loop-parts.ts";
import { ConcurrencyController } from "../limits/concurrency-controller.ts";
import { SlotPermits } from "../limits/slot-permits.ts";

const NO_LIMITS: StartRights = {
  isIdle: true,
  ended: 0,
  soon: 0,
  take: () => null,
  canTake: () => false,
  request: () => undefined,
  drop: () => undefined,
  clear: () => [],
  review: () => undefined,
  isLate: () => false,
};

/** An item loop with one slot, the items that it started, and a way to end a guarded run. */
function makeRunner(): { runner: ItemLoop; begun: string[]; endGuarded: () => void } {
  const begun: string[] = [];
  const { promise: ended, resolve: endGuarded } = Promise.withResolvers<void>();
  const pipeline = definePipeline({
    name: "items",
    concurrency: 1,
    process: (item: string) => void begun.push(item),
  });
  const runner = new ItemLoop(
    {
      step: pipeline.steps[0],
      clock: new ManualClock(),
      random: new SeededRandom(1),
      log: silentLog,
      abortGraceMs: 100,
      flushItems: 100,
      rights: NO_LIMITS,
      controller: new ConcurrencyController(1, null),
      permits: new SlotPermits(new ManualClock()),
    },
    {
      onFinished: () => undefined,
      onExpired: () => undefined,
      onUsedUp: () => undefined,
      onReportDue: () => undefined,
      onFatal: (error) => begun.push(String(error)),
      onThrottled: () => undefined,
      onOutage: () => undefined,
      runGuarded: async ({ lease }) => {
        begun.push(`guarded ${lease.batch}`);
        await ended;
      },
    },
  );
  return { runner, begun, endGuarded };
}

/** A chunk of one item, with the same name as its batch. */
function makeRun(
  batch: string,
  { guarded = false, leaseUntil = Number.POSITIVE_INFINITY } = {},
): ChunkRun {
  const chunk = { step: 0, chunk: 0, fence: 1, start: 0, end: 1, locator: null };
  const past = { outcomes: createOutcomeMap(1), histories: [], overrides: [], final: false };
  const run = new ChunkRun({ batch, ...chunk, ...past, guarded }, { leaseUntil, now: 0 });
  run.receive("lane", { count: 1, at: () => batch });
  run.arrived = true;
  return run;
}

test("a guarded run runs alone when the lease before it has just expired", async () => {
  const { runner, begun, endGuarded } = makeRunner();
  // The loop has yielded once, and continues at once from then on.
  runner.add([makeRun("first")]);
  await expect.poll(() => [begun, runner.active]).toEqual([["first"], 0]);
  const late = makeRun("late", { leaseUntil: 0 });
  runner.add([late, makeRun("lost", { guarded: true }), makeRun("next")]);
  expect(begun).toEqual(["first", "guarded lost"]);
  endGuarded();
  await expect.poll(() => begun).toEqual(["first", "guarded lost", "next"]);
});
