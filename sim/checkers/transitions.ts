/** Each transition has its record, in the same commit. */
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";
import { readNewRecords } from "./new-records.ts";

export function checkTransitions(scene: Scene): Checker {
  const read = readNewRecords(scene);
  const before = new Map<
    string,
    {
      readonly state: string;
      readonly step: number;
      readonly active: boolean;
      readonly parked: boolean;
    }
  >();
  return {
    onCommit: () => {
      const written = Map.groupBy(read(), ({ batch }) => batch);
      for (const batch of listBatches(scene)) {
        const { id } = batch.submission;
        const types = (written.get(id) ?? []).map(({ type }) => type);
        const was = before.get(id);
        const now = {
          state: batch.state,
          step: batch.step,
          active: batch.active,
          parked: batch.parked !== null,
        };
        before.set(id, now);
        const need = (type: string, why: string): void => {
          if (!types.includes(type)) scene.fail(`${nameBatch(batch)} ${why}, and has no ${type}`);
        };
        if (was === undefined) {
          need("batch.submitted", "is there");
          continue;
        }
        if (now.step > was.step) need("step.ended", "is at its next step");
        if (now.active && !was.active) need("batch.started", "has started");
        if (!now.active && was.active) need("batch.released", "has freed its lane");
        if (now.parked && !was.parked) need("batch.parked", "is parked");
        if (was.state === "slicing" && (now.state === "running" || now.state === "ready")) {
          need("slicing.finished", "is planned");
        }
      }
    },
  };
}
