/** Writes a batch's ledger to a file, signed to its last record if there is a key. */
import { openKeyFile } from "../../ledger/keys/key-file.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import { exportLedger } from "../../runtime/evidence/ledger-export.ts";
import { LedgerSigner } from "../../runtime/evidence/ledger-signer.ts";
import type { LogEntry } from "../../runtime/system/log.ts";
import type { Cli } from "../output/cli.ts";
import { OutputFile } from "../output/output-file.ts";
import type { StoreLook } from "../session/with-store.ts";

/** Returns the number of bytes. */
export async function writeSignedExport(
  cli: Cli,
  { id }: BatchSnapshot,
  { store, config, display }: StoreLook,
  path: string,
): Promise<number> {
  const { ledgerKey } = config;
  let signedTo: number | null = null;
  if (ledgerKey !== null) {
    const log = ({ message }: LogEntry): void => display.note(message);
    const signer = new LedgerSigner({ store, clock: cli.clock, log }, (at) =>
      openKeyFile(ledgerKey, at),
    );
    signedTo = await signer.sign(id);
  }
  const file = await OutputFile.create(path);
  let bytes = 0;
  try {
    for await (const piece of exportLedger(store, id, signedTo)) {
      bytes += piece.length;
      await file.write(piece);
    }
    await file.finish();
  } catch (error) {
    await file.discard();
    throw error;
  }
  return bytes;
}
