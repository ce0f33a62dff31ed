/**
 * Promise 10: an export of every batch's chain verifies offline, by what it says alone. So its plan,
 * what became of its items, the counts of its steps and its endings agree in every history that the
 * world can bring about.
 */
import { verifyExport } from "../../src/ledger/verify-export.ts";
import { exportLedger } from "../../src/runtime/ledger-export.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

export function checkLedger(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const { id } = batch.submission;
        const verdict = await verifyExport(exportLedger(scene.world.store, id), { trusted: [] });
        if (verdict.kind === "intact") continue;
        scene.say(`the export of ${nameBatch(batch)} breaks at ${verdict.record}: ${verdict.why}`);
      }
    },
  };
}
