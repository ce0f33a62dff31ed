/**
 * No two items with the same content both succeed, and no item is skipped as a duplicate of one
 * that did not succeed.
 */
import { getOutcome, SKIPPED, SUCCEEDED } from "../../src/core/items/outcome-map.ts";
import { type Checker, listBatches, listParcels, listSteps, type Scene } from "./checker.ts";

export function checkDedupe(scene: Scene): Checker {
  return {
    atEnd: () => {
      const successes = new Map<string, number>();
      const skips: { readonly content: string; readonly what: string }[] = [];
      let whole = true;
      for (const batch of listBatches(scene)) {
        for (const place of listSteps(scene, batch)) {
          if (!place.plot.dedupes) continue;
          const parcels = listParcels(scene, place);
          whole &&= parcels !== null;
          for (const { start, end, outcomes } of place.step.chunks) {
            for (const [at, parcel] of (parcels ?? []).slice(start, end).entries()) {
              const content = `${batch.submission.pipeline}/${scene.errands.getContent(parcel)}`;
              const outcome = getOutcome(outcomes, at);
              if (outcome === SUCCEEDED) successes.set(content, (successes.get(content) ?? 0) + 1);
              const skipsItself = scene.errands.getDoing(parcel, place.number).does === "skip";
              if (outcome === SKIPPED && !skipsItself) {
                skips.push({ content, what: `${parcel.key}/${parcel.n}` });
              }
            }
          }
        }
      }
      for (const [content, times] of successes) {
        if (times > 1) scene.fail(`${times} items with the content ${content} succeeded`);
      }
      // The item that succeeded may be one that retention deleted.
      for (const { what, content } of whole ? skips : []) {
        if (!successes.has(content)) scene.fail(`${what} was skipped, but no ${content} succeeded`);
      }
    },
  };
}
