/**
 * Any interleaving of every store method: several workers on several batches in few lanes, leases
 * that expire, stale workers that report late, replies that are lost, planners that race, and
 * operators who cancel, pause, move and redrive. Each store and the reference model answer and hold
 * the same, both as the oracle predicts, and no promise is broken. At the end the faults stop and
 * everything must end.
 *
 * The seed is fixed, so that a changed result comes from a changed line. SLUICE_PROPERTY_RUNS sets
 * the number of runs, with a new seed each time. A failure prints its seed and path: put them into
 * the options below as `seed` and `path`, and its `replayPath` into those of `fc.commands`.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ManualClock } from "../support/manual-clock.ts";
import { commands } from "./commands.ts";
import { RIVALS } from "./rivals.ts";
import { closePair, openPair } from "./scene.ts";
import { drain, Stage } from "./stage.ts";

const RUNS = 100;
const COMMANDS_MAX = 120;
/**
 * Shrinking a failing run stops here; the best result until then is printed. Several times as long
 * as all runs take, also on a machine that does other work.
 */
const TIME_LIMIT_MS = 180_000;

const SEED = 20_261_115;

const wanted = process.env["SLUICE_PROPERTY_RUNS"];
const runs = Number(wanted ?? RUNS);
const timeLimitMs = TIME_LIMIT_MS * Math.max(1, runs / RUNS);

test.each(RIVALS)(
  "$name, the reference model and the oracle agree, and no promise is broken",
  {
    timeout: timeLimitMs + 10_000,
  },
  async (rival) => {
    let items = 0;
    let played = 0;
    const property = fc.asyncProperty(
      fc.commands(commands, { maxCommands: COMMANDS_MAX, size: "max" }),
      async (script) => {
        const clock = new ManualClock();
        const stage = new Stage(clock);
        const pair = await openPair(clock, rival);
        try {
          await fc.asyncModelRun(() => ({ model: stage, real: pair }), script);
          await drain(stage, pair);
          items += stage.witness.runs;
          played++;
        } finally {
          await closePair(pair);
        }
      },
    );
    await fc.assert(property, {
      numRuns: Math.ceil(runs / rival.slowness),
      ...(wanted === undefined ? { seed: SEED } : {}),
      plugins: [fc.interruptAfterTimeLimit(timeLimitMs)],
    });
    expect(played).toBe(Math.ceil(runs / rival.slowness));
    // The test would prove nothing if its workers never ran anything.
    expect(items).toBeGreaterThan(played);
  },
);
