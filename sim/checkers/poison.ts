/**
 * A suspect runs alone, and no item is convicted that was not interrupted as often as it is
 * charged.
 */
import type { ErrandRun } from "../traffic/errand.ts";
import {
  type Checker,
  describeRun,
  findPlace,
  listBatches,
  listSteps,
  type Scene,
} from "./checker.ts";

/** Written here again, because the code under test may be wrong. */
const DEATHS_OF_SUSPECT = 2;

export function checkPoison(scene: Scene): Checker {
  const running = new Set<ErrandRun>();
  const suspects = new Set<ErrandRun>();
  const forget = (run: ErrandRun): void => {
    running.delete(run);
    suspects.delete(run);
  };
  return {
    onStart: (run) => {
      const place = findPlace(scene, run);
      const deaths = place?.chunk.tracked.get(place.position)?.deaths ?? 0;
      const isSuspect = deaths >= DEATHS_OF_SUSPECT && place?.chunk.fence === run.fence;
      const beside = [...running].filter(({ node }) => node === run.node);
      // A handler that ignores its signal is abandoned, and may run beside what comes after it.
      const others = beside.filter(({ doing }) => doing.does !== "hang" && doing.does !== "dawdle");
      if (isSuspect && others.length > 0) {
        scene.fail(`${describeRun(run)}, a suspect, beside ${others.length} others`);
      }
      if (
        beside.some(
          (one) => suspects.has(one) && one.doing.does !== "hang" && one.doing.does !== "dawdle",
        )
      ) {
        scene.fail(`${describeRun(run)} beside a suspect`);
      }
      running.add(run);
      if (isSuspect) suspects.add(run);
    },
    onLeave: forget,
    onCrash: (node) => {
      for (const run of running) if (run.node === node) forget(run);
    },
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        for (const { step, number, plot } of listSteps(scene, batch)) {
          for (const { start, tracked } of step.chunks) {
            for (const { index, deaths, dead, error } of tracked.values()) {
              if (!dead || error?.code !== "POISON" || plot.byChunk || !scene.plot.calm) continue;
              const cut = scene.errands.runs.filter(
                (run) =>
                  run.batch === batch.submission.id &&
                  run.step === number &&
                  run.index === start + index &&
                  !run.node.alive &&
                  !run.ended,
              ).length;
              if (cut < deaths - 1) {
                scene.fail(
                  `item ${number}/${start + index} is blamed ${deaths} times, interrupted ${cut}`,
                );
              }
            }
          }
        }
      }
    },
  };
}
