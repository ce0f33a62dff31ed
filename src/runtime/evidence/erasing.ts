/** Erases the details that handlers recorded with items' states from a batch's ledger. */
import type { Act } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { eraseDetails } from "../../ledger/format/erasure.ts";
import type { KeptDetails, LedgerLink, LedgerStore } from "../../ports/store/ledger-store.ts";

const PAGE = 1_000;
/** How often a page is read again because another process has erased some of it meanwhile. */
const TRIES_MAX = 100;

/**
 * Erases the details of items with these keys, or of all items; returns the number of records.
 * Works a page at a time, with a record for each page: after a crash, erasing again completes it.
 */
export async function eraseRecorded(
  store: Pick<LedgerStore, "readLedger" | "eraseDetails">,
  batch: string,
  keys: readonly string[] | null,
  act: Act,
): Promise<number> {
  const picked = keys === null ? null : new Set(keys);
  let erased = 0;
  let tries = 0;
  for (let after = 0; ; ) {
    const links = await store.readLedger(batch, after, PAGE);
    const last = links.at(-1);
    if (last === undefined) return erased;
    const kept = links.flatMap((link) => eraseLink(link, picked) ?? []);
    const asked = kept.reduce((sum, { records }) => sum + records, 0);
    const done = asked === 0 ? 0 : await store.eraseDetails(batch, kept, act);
    erased += done;
    if (done === asked) {
      after = last.seq;
      tries = 0;
    } else if (++tries === TRIES_MAX) {
      throw new SluiceError("STORE_BUSY", `other processes keep erasing details of ${batch}`, {
        hint: "Erase again: what is erased stays erased.",
        retryable: true,
      });
    }
  }
}

/** Null when nothing is to be erased. */
function eraseLink(
  { seq, block }: LedgerLink,
  picked: ReadonlySet<string> | null,
): KeptDetails | null {
  const was = block?.details ?? null;
  if (block === null || was === null) return null;
  const left = eraseDetails({ bytes: Buffer.from(block.lines), details: was }, ({ key }) =>
    picked === null ? true : key !== undefined && picked.has(key),
  );
  if (left === was) return null;
  const records = countLines(was) - countLines(left);
  return { seq, was, details: left === "" ? null : left, records };
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}
