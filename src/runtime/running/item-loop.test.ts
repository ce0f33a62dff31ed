import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { createOutcomeMap } from "../../core/items/outcome-map.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { ItemRunner } from "./item-loop.ts";
import { silentLog } from "../system/log.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import type { StartRights } from "./item-loop-parts.ts";
import { SlotGauge } from "../limits/concurrency-controller.ts";
import { SlotPermits } from "../limits/slot-permits.ts";

const NO_LIMITS: StartRights = {
  isIdle: true,
  ended: 0,
  soon: 0,
  take: () => null,
  canTake: () => false,
  ask: () => undefined,
  drop: () => undefined,
  clear: () => [],
  review: () => undefined,
  isLate: () => false,
};

/** A runner of one handler at once, what it began, and how a careful run ends. */
function makeRunner(): { runner: ItemRunner; begun: string[]; endCareful: () => void } {
  const begun: string[] = [];
  const { promise: ended, resolve: endCareful } = Promise.withResolvers<void>();
  const pipeline = definePipeline({
    name: "items",
    concurrency: 1,
    process: (item: string) => void begun.push(item),
  });
  const runner = new ItemRunner(
    {
      step: pipeline.steps[0],
      clock: new ManualClock(),
      random: new SeededRandom(1),
      log: silentLog,
      abortGraceMs: 100,
      flushItems: 100,
      rights: NO_LIMITS,
      gauge: new SlotGauge(1, null),
      permits: new SlotPermits(async () => undefined),
    },
    {
      onFinished: () => undefined,
      onExpired: () => undefined,
      onUsedUp: () => undefined,
      onMuchToTell: () => undefined,
      onFatal: (error) => begun.push(String(error)),
      onThrottled: () => undefined,
      onOutage: () => undefined,
      runCarefully: async ({ lease }) => {
        begun.push(`carefully ${lease.batch}`);
        await ended;
      },
    },
  );
  return { runner, begun, endCareful };
}

/** A chunk of one item, which is called as its batch is. */
function makeRun(
  batch: string,
  { careful = false, leaseUntil = Number.POSITIVE_INFINITY } = {},
): ChunkRun {
  const chunk = { step: 0, chunk: 0, fence: 1, start: 0, end: 1, locator: null };
  const past = { outcomes: createOutcomeMap(1), histories: [], overrides: [], final: false };
  const run = new ChunkRun({ batch, ...chunk, ...past, careful }, { leaseUntil, now: 0 });
  run.receive("lane", { count: 1, at: () => batch });
  run.arrived = true;
  return run;
}

test("a careful run whose turn comes as the lease before it turns out to be over is alone", async () => {
  const { runner, begun, endCareful } = makeRunner();
  // With it the runner has let others have their turn, and goes on at once from then on.
  runner.add([makeRun("first")]);
  await expect.poll(() => [begun, runner.active]).toEqual([["first"], 0]);
  const late = makeRun("late", { leaseUntil: 0 });
  runner.add([late, makeRun("lost", { careful: true }), makeRun("next")]);
  expect(begun).toEqual(["first", "carefully lost"]);
  endCareful();
  await expect.poll(() => begun).toEqual(["first", "carefully lost", "next"]);
});
