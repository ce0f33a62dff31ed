/**
 * A process that a test stops inside a transaction:
 *   node held-transaction.ts <address> <batch>
 * It locks the batch, reports that, and continues when it is told to. Then it reports the result.
 */
import { once } from "node:events";
import { readAddress } from "../../src/adapters/postgres/connection/address.ts";
import { Connection } from "../../src/adapters/postgres/connection/connection.ts";
import { statement } from "../../src/adapters/postgres/connection/statement.ts";
import { SluiceError } from "../../src/core/base/errors.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";

export type Said =
  | { readonly kind: "inside" }
  | { readonly kind: "committed" }
  | { readonly kind: "failed"; readonly code: string; readonly retryable: boolean };

const LOCK = statement("SELECT 1 FROM batch WHERE id = $1 FOR NO KEY UPDATE");
const CHANGE = statement("UPDATE batch SET cancel_why = 'too late' WHERE id = $1");

const [address = "", batch = ""] = process.argv.slice(2);
const connection = new Connection({
  address: readAddress(address),
  busyMs: 0,
  connectionsMax: 1,
  clock: systemClock,
  random: systemRandom,
  time: null,
});

function say(said: Said): void {
  process.send?.(said);
}

try {
  await connection.write(async (tx) => {
    await tx.all(LOCK, batch);
    say({ kind: "inside" });
    await once(process, "message");
    await tx.run(CHANGE, batch);
  });
  say({ kind: "committed" });
} catch (error) {
  if (!(error instanceof SluiceError)) throw error;
  say({ kind: "failed", code: error.code, retryable: error.retryable });
}
await connection.close();
process.disconnect();
