/** Promise 10, as far as it goes today: the records of every batch are one unbroken chain. */
import { hash } from "node:crypto";
import { verifyChain } from "../../src/core/chain.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

export function checkChain(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const records = await scene.world.store.readRecords(batch.submission.id, 0, 100_000);
        const verdict = verifyChain(records, (text) => hash("sha256", text));
        if (verdict.kind !== "intact") {
          scene.say(`the chain of ${nameBatch(batch)} breaks: ${verdict.why}`);
        }
      }
      const positions = scene.world.store.state.records.map(({ position }) => position);
      const rises = positions.every((position, at) => position > (positions[at - 1] ?? 0));
      if (!rises) scene.say("positions of records do not rise");
    },
  };
}
