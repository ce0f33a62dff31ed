/**
 * A SQLite file remembers the boot in which it was last used. After a reboot every holder is gone
 * and monotonic times start again: everything that waits is due, and every watch starts again.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Host } from "../sql/host.ts";
import type { Connection } from "./connection/connection.ts";
import { adoptBuckets } from "./limits/token-buckets.ts";

export async function adoptBoot(
  connection: Connection,
  clock: Clock,
  { bootId }: Host,
): Promise<void> {
  const select = connection.prepare("SELECT boot_id FROM host");
  const row = await connection.read(() => select.get() as { boot_id: string } | undefined);
  if (row?.boot_id === bootId) return;
  await connection.write(() => {
    connection.exec(`
      UPDATE chunk SET lease_until = 0 WHERE state = 'leased';
      UPDATE chunk SET due_at = 0 WHERE state = 'waiting';
      UPDATE item SET due_at = 0 WHERE due_at > 0;
      UPDATE step SET leasable_at = 0 WHERE leasable_at > 0;
      UPDATE step SET watch_due_at = 0 WHERE running = 1;
      UPDATE worker SET until = 0;
      DELETE FROM permit;
      DELETE FROM claim;`);
    adoptBuckets(connection, clock);
    connection
      .prepare("UPDATE batch SET activity_at = ? WHERE ended_at IS NULL")
      .run(Math.floor(clock.monotonicMs()));
    connection
      .prepare(
        "INSERT INTO host (one, boot_id) VALUES (1, ?) ON CONFLICT DO UPDATE SET boot_id = excluded.boot_id",
      )
      .run(bootId);
  });
}
