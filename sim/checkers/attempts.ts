/**
 * Attempts are counted and bounded: a handler is told the number of its try, in the right drive, when
 * the item is due and not before; in a careful run its start was written first.
 */
import { type Checker, describeRun, findPlace, type Scene } from "./checker.ts";

export function checkAttempts(scene: Scene): Checker {
  return {
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null) return;
      const { chunk, position, step } = place;
      const what = describeRun(run);
      const tracked = chunk.tracked.get(position);
      const now = scene.world.storeClock.monotonicMs();
      // Those who lost their lease are looked at by fencing.
      if (chunk.state !== "leased" || chunk.fence !== run.fence) return;
      if (chunk.careful && tracked?.started !== true) scene.say(`${what}, which is unannounced`);
      if (tracked !== undefined && tracked.dueAt > now) {
        scene.say(`${what} ${tracked.dueAt - now} ms before it is due`);
      }
      const expected = (tracked?.attempts ?? 0) + 1;
      if (run.attempt !== expected) scene.say(`${what} as try ${run.attempt}, not ${expected}`);
      const limit = run.plot.retry.attempts + (tracked?.deaths ?? 0);
      if (run.attempt > limit) scene.say(`${what} as try ${run.attempt} of ${limit}`);
      if (run.drive !== (tracked?.drive ?? 1)) scene.say(`${what} in drive ${run.drive}`);
      const final = step.passes >= step.settings.maxRedrives;
      if (run.final !== final) scene.say(`${what}, final: ${run.final}`);
    },
  };
}
