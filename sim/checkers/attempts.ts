/**
 * Attempts are counted and bounded. A handler gets the number of its try, in the right drive, when
 * the item is due and not before; in a guarded run its start was written first. A try that does not
 * count (its worker died, its server was away) is repeated, but not for ever.
 */
import { type Checker, describeRun, findPlace, type Scene } from "./checker.ts";

/** Faults and outages cost an item some tries, but never so many. */
const ALIKE_MAX = 500;

export function checkAttempts(scene: Scene): Checker {
  /** Number of times that each try was made, by item, drive and number. */
  const made = new Map<string, number>();
  return {
    onStart: (run) => {
      const name = [run.batch, run.step, run.index, run.drive, run.attempt].join("/");
      const times = (made.get(name) ?? 0) + 1;
      made.set(name, times);
      if (times > ALIKE_MAX) scene.fail(`${describeRun(run)} for the ${times}th time`);
      const place = findPlace(scene, run);
      if (place === null) return;
      const { chunk, position, step } = place;
      const what = describeRun(run);
      const tracked = chunk.tracked.get(position);
      const now = scene.world.storeClock.monotonicMs();
      // The fencing checker judges runs that lost their lease.
      if (chunk.state !== "leased" || chunk.fence !== run.fence) return;
      if (chunk.guarded && tracked?.started !== true)
        scene.fail(`${what}, which was not announced`);
      if (tracked !== undefined && tracked.dueAt > now) {
        scene.fail(`${what} ${tracked.dueAt - now} ms before it is due`);
      }
      const expected = (tracked?.attempts ?? 0) + 1;
      if (run.attempt !== expected) scene.fail(`${what} as try ${run.attempt}, not ${expected}`);
      const limit = run.plot.retry.attempts + (tracked?.deaths ?? 0);
      if (run.attempt > limit) scene.fail(`${what} as try ${run.attempt} of ${limit}`);
      if (run.drive !== (tracked?.drive ?? 1)) scene.fail(`${what} in drive ${run.drive}`);
      const final = step.passes >= step.settings.maxRedrives;
      if (run.final !== final) scene.fail(`${what}, final: ${run.final}`);
    },
  };
}
