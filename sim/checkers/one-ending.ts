/**
 * Promise 3: a batch ends once for each drive, and its ending is recorded once, in the commit that
 * makes its last item terminal.
 */
import { isEnded } from "../../src/core/batch/batch.ts";
import { type Checker, nameBatch, type Scene } from "./checker.ts";
import { readNewRecords } from "./new-records.ts";

interface Endings {
  ended: number;
  reopened: number;
  readonly drives: Set<number>;
}

export function checkOneEnding(scene: Scene): Checker {
  const endings = new Map<string, Endings>();
  const read = readNewRecords(scene);
  return {
    onCommit: () => {
      const { batches } = scene.world.store.state;
      for (const { batch, type, data } of read()) {
        const known = endings.get(batch) ?? { ended: 0, reopened: 0, drives: new Set() };
        endings.set(batch, known);
        const drive = Number(data["drive"] ?? 0);
        if (type === "batch.ended") {
          known.ended++;
          if (known.drives.has(drive)) scene.fail(`${batch} ends drive ${drive} twice`);
          known.drives.add(drive);
        }
        if (type === "batch.reopened") known.reopened++;
        if (known.ended - known.reopened > 1)
          scene.fail(`${batch} ends again, and was not reopened`);
      }
      for (const batch of batches.values()) {
        const { ended = 0, reopened = 0 } = endings.get(batch.submission.id) ?? {};
        if (isEnded(batch.state) === ended > reopened) continue;
        scene.fail(`${nameBatch(batch)} is ${batch.state}, ended ${ended}, reopened ${reopened}`);
      }
    },
  };
}
