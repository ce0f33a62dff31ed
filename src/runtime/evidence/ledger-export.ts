/** Exports a batch's evidence from the store, as the file that others verify. */
import { SluiceError } from "../../core/base/errors.ts";
import { type ExportedRecord, writeExport } from "../../ledger/format/export-line.ts";
import type { Signed } from "../../ledger/format/signing-key.ts";
import type { Store } from "../../ports/store/store.ts";

const PAGE = 1_000;

type LedgerReader = Pick<Store, "readKeys" | "readSignedHeads" | "readLedger">;

/**
 * Yields the export in pieces, so that memory holds only a page. Records that are added meanwhile
 * may be left out: an export that ends with record `upTo` is signed to its end.
 */
export async function* exportLedger(
  store: LedgerReader,
  batch: string,
  upTo: number | null = null,
): AsyncGenerator<Uint8Array, void, void> {
  // Heads that are signed meanwhile come with the next export. A key is stored before it signs, so
  // all keys of these heads are known.
  const signedHeads = await store.readSignedHeads(batch);
  const keys = await store.readKeys();
  const signed = new Map(
    signedHeads.map(({ size, body, signature }) => [size, { body, signature }]),
  );
  yield* writeExport(batch, keys, readRecords(store, batch, signed, upTo));
}

async function* readRecords(
  store: LedgerReader,
  batch: string,
  signedHeads: ReadonlyMap<number, Signed>,
  upTo: number | null,
): AsyncGenerator<ExportedRecord> {
  for (let after = 0; ; ) {
    const links = await store.readLedger(batch, after, PAGE);
    if (links.length === 0) break;
    for (const { seq, body, block } of links) {
      if (upTo !== null && seq > upTo) return;
      after = seq;
      const kept =
        block === null ? null : { bytes: Buffer.from(block.lines), details: block.details ?? "" };
      yield { body, block: kept, signedHead: signedHeads.get(seq) ?? null };
    }
  }
  // Retention removes the first link before all others: if it still exists, this export was
  // complete.
  if ((await store.readLedger(batch, 0, 1)).length > 0) return;
  throw new SluiceError(
    "REMOVED",
    `there is no ledger of batch ${batch} any more: retention has removed it`,
    {
      kind: "ledger",
      hint: "Keep what is to be proven for longer (keepEvidenceMs), or export it before it goes.",
    },
  );
}
