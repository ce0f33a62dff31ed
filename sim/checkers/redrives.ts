/**
 * A redrive takes no more than it was allowed and happens once; a step has no more automatic passes
 * than its maximum; an item that was discarded or failed for good does not come back by itself; an
 * edited item runs with its edit.
 */
import type { RedriveRequest, RedriveResult } from "../../src/ports/store/operator-store.ts";
import { type Checker, describeRun, findPlace, nameBatch, type Scene } from "./checker.ts";
import { readNewRecords } from "./new-records.ts";

export function checkRedrives(scene: Scene): Checker {
  const { state } = scene.world.store;
  /** The newest drive that an operator asked for, by batch. */
  const asked = new Map<string, number>();
  const orders = { made: 0, recorded: 0 };
  const read = readNewRecords(scene);
  return {
    onCommit: (_node, verb, answer, args) => {
      if (verb === "redrive" && (answer as RedriveResult).kind === "done") {
        const [id, { ceiling, dryRun }] = args as [string, RedriveRequest];
        const { redriven, batch } = answer as RedriveResult & { kind: "done" };
        if (redriven > ceiling)
          scene.fail(`${redriven} dead letters are redriven, ${ceiling} allowed`);
        if (!dryRun) asked.set(id, batch.drive);
        if (!dryRun) orders.made++;
      }
      for (const { type, data } of read()) {
        if (type === "dead_letters.redriven" && data["by"] === "op") orders.recorded++;
      }
      if (orders.recorded > scene.plot.acts.filter(({ act }) => act === "redrive").length) {
        scene.fail(`${orders.recorded} redrives are recorded, more than were asked for`);
      }
      for (const batch of state.batches.values()) {
        for (const { passes, settings } of batch.steps) {
          if (passes <= settings.maxRedrives) continue;
          scene.fail(`${nameBatch(batch)} has ${passes} passes of ${settings.maxRedrives}`);
        }
      }
    },
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null) return;
      const { step } = place;
      if (step.discarded.has(run.index)) scene.fail(`${describeRun(run)}, which was discarded`);
      const edited = step.overrides.get(run.index);
      if (edited !== undefined && edited !== JSON.stringify(run.parcel) && isCurrent(run.fence)) {
        scene.fail(`${describeRun(run)} as it was before it was edited`);
      }
      // Of items that are handled together one may spoil the try of the others, and so may a lost
      // lease.
      const alone = !run.plot.byChunk && scene.plot.calm;
      const refused = alone && run.doing.does === "refuse" && run.parcel.edited !== true;
      const wanted = (asked.get(run.batch) ?? 0) >= run.drive;
      if (refused && run.drive > 1 && !wanted) {
        scene.fail(`${describeRun(run)} in drive ${run.drive}, although it failed for good`);
      }
      const deaths = place.chunk.tracked.get(place.position)?.deaths ?? 0;
      if (refused && run.attempt > 1 + deaths) {
        scene.fail(`${describeRun(run)} as try ${run.attempt}, although it failed for good`);
      }

      function isCurrent(fence: number): boolean {
        return place?.chunk.fence === fence;
      }
    },
  };
}
