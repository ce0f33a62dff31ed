/**
 * Promise 10: an export of every batch's records verifies offline, by what it says alone. So its plan,
 * the counts of its steps and its endings agree in every history that the world can bring about.
 */
import { writeExport } from "../../src/ledger/export-line.ts";
import { verifyExport } from "../../src/ledger/verify-export.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

export function checkLedger(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const { id } = batch.submission;
        const records = await scene.world.store.readRecords(id, 0, 100_000);
        const exported = records.map(({ body }) => ({ body, block: null, checkpoint: null }));
        const verdict = await verifyExport(writeExport(id, [], exported), { trusted: [] });
        if (verdict.kind === "intact") continue;
        scene.say(`the export of ${nameBatch(batch)} breaks at ${verdict.record}: ${verdict.why}`);
      }
    },
  };
}
