/** Taking what handlers recorded beside items' states out of a batch's ledger. */
import type { Act } from "../core/batch.ts";
import { eraseDetails } from "../ledger/erasure.ts";
import type { KeptDetails, LedgerStore } from "../ports/ledger.ts";

const PAGE = 1_000;

/**
 * Erases the details of items with these keys, or of all; answers of how many records. A page at a
 * time, each with a record of its own: what a crash leaves is erased by doing it again.
 */
export async function eraseRecorded(
  store: Pick<LedgerStore, "readLedger" | "eraseDetails">,
  batch: string,
  keys: readonly string[] | null,
  act: Act,
): Promise<number> {
  const picked = keys === null ? null : new Set(keys);
  let erased = 0;
  for (let after = 0; ; ) {
    const links = await store.readLedger(batch, after, PAGE);
    if (links.length === 0) return erased;
    const kept: KeptDetails[] = [];
    let records = 0;
    for (const { seq, block } of links) {
      after = seq;
      const details = block?.details ?? null;
      if (block === null || details === null) continue;
      const left = eraseDetails({ bytes: Buffer.from(block.lines), details }, ({ key }) =>
        picked === null ? true : key !== undefined && picked.has(key),
      );
      if (left === details) continue;
      records += countLines(details) - countLines(left);
      kept.push({ seq, details: left === "" ? null : left });
    }
    if (records > 0) await store.eraseDetails(batch, kept, { ...act, records });
    erased += records;
  }
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}
