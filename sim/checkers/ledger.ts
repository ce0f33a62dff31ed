/**
 * Promise 10: an export of every batch's chain verifies offline, by what it says alone. So its plan,
 * what became of its items, the counts of its steps and its endings agree in every history that the
 * world can bring about.
 */
import { type ExportedRecord, writeExport } from "../../src/ledger/export-line.ts";
import { verifyExport } from "../../src/ledger/verify-export.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

const PAGE = 1_000;

export function checkLedger(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const { id } = batch.submission;
        const verdict = await verifyExport(writeExport(id, [], readChain(scene, id)), {
          trusted: [],
        });
        if (verdict.kind === "intact") continue;
        scene.say(`the export of ${nameBatch(batch)} breaks at ${verdict.record}: ${verdict.why}`);
      }
    },
  };
}

async function* readChain({ world }: Scene, batch: string): AsyncGenerator<ExportedRecord> {
  for (let after = 0; ; ) {
    const links = await world.store.readLedger(batch, after, PAGE);
    if (links.length === 0) return;
    for (const { seq, body, block } of links) {
      after = seq;
      const kept =
        block === null ? null : { bytes: Buffer.from(block.lines), details: block.details ?? "" };
      yield { body, block: kept, checkpoint: null };
    }
  }
}
