/** A plan has no gap and no repeat, even if its slicer died half-way, and has every item. */
import {
  type Checker,
  listBatches,
  listParcels,
  listSteps,
  nameBatch,
  type Scene,
} from "./checker.ts";

export function checkPlan(scene: Scene): Checker {
  const pipelines = new Map(scene.plot.pipelines.map((one) => [one.name, one]));
  return {
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        for (const place of listSteps(scene, batch)) {
          const what = `step ${place.number} of ${nameBatch(batch)}`;
          let expected = 0;
          const { chunkSize } = place.plot;
          for (const { start, end } of place.step.chunks) {
            if ((!place.plot.waits && end - start > chunkSize) || end <= start) {
              scene.fail(`${what}: a chunk has ${end - start} items, ${chunkSize} at most`);
            }
            if (start !== expected)
              scene.fail(`${what}: a chunk starts at ${start}, not ${expected}`);
            expected = end;
          }
          const ended = batch.state === "succeeded" || batch.state === "completed_with_errors";
          if (place.plot.waits && ended && expected !== 1) {
            scene.fail(`${what} waits for a count with ${expected} items`);
          }
          if (place.number > 0) continue;
          const items = scene.errands.listItems(batch.submission.key ?? "");
          // An open batch that was stopped and reopened continues with the items that it has.
          const whole = ended && !(batch.submission.open && batch.drive > 1);
          if (whole && expected !== items.length) {
            scene.fail(`${what}: ${expected} items are planned, not ${items.length}`);
          }
          const parcels = listParcels(scene, place, true) ?? [];
          const numbers = parcels.map((parcel) => parcel?.n);
          if (new Set(numbers).size < numbers.length) scene.fail(`${what} has ${numbers.join()}`);
          // An iterable differs each time it is opened, but it is frozen in the order of one
          // opening.
          const rotates = pipelines.get(batch.submission.pipeline)?.supply === "iterable";
          const isOrdered = numbers.every((n, at) => n === at);
          if (!rotates && !isOrdered) scene.fail(`${what} is planned as ${numbers.join()}`);
        }
      }
    },
  };
}
