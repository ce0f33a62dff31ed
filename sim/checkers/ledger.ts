/**
 * Promise 10: an export of every batch's chain verifies offline, from the export alone. So its
 * plan, the outcomes of its items, the counts of its steps and its endings agree in every history
 * that the world can produce. Where ledgers are kept, all of it is signed.
 */
import { isConclusive } from "../../src/ledger/verify/verdict.ts";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import { exportLedger } from "../../src/runtime/evidence/ledger-export.ts";
import { SIGNING_KEY_ID } from "../traffic/signing-key.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

export function checkLedger(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const { id } = batch.submission;
        const exported = exportLedger(scene.world.store, id);
        const verdict = await verifyExport(exported, { trusted: [SIGNING_KEY_ID] });
        if (verdict.kind === "broken") {
          const { record, why } = verdict;
          scene.fail(`the export of ${nameBatch(batch)} breaks at ${record}: ${why}`);
        } else if (batch.submission.settings.ledger?.item && !isConclusive(verdict)) {
          scene.fail(`the export of ${nameBatch(batch)} is not conclusive`, verdict);
        }
      }
    },
  };
}
