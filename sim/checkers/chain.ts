/** Promise 10, for records: all records of a batch are one unbroken chain. */
import { hash } from "node:crypto";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import type { LedgerLink } from "../../src/ports/store/ledger-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

export function checkChain(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const links = await readChain(scene.world.store, batch.submission.id);
        const verdict = verifyChain(links, (text) => hash("sha256", text));
        if (verdict.kind !== "intact") {
          scene.fail(`the chain of ${nameBatch(batch)} breaks: ${verdict.why}`);
        }
      }
      const positions = scene.world.store.state.records.map(({ position }) => position);
      const rises = positions.every((position, at) => position > (positions[at - 1] ?? 0));
      if (!rises) scene.fail("positions of records do not rise");
    },
  };
}

async function readChain(store: Store, id: string): Promise<LedgerLink[]> {
  const links: LedgerLink[] = [];
  for (;;) {
    const page = await store.readLedger(id, links.at(-1)?.seq ?? 0, 10_000);
    if (page.length === 0) return links;
    links.push(...page);
  }
}
