/**
 * Samples all sessions of a database and counts those that wait for a lock of another session.
 * Latches inside the server (wait_event_type LWLock) do not count.
 */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

export interface LockWaits {
  /** Sessions that wait for a lock, on average over the samples. */
  readonly lockWaiters: number;
  readonly lockWaitersMax: number;
}

const LOOK_EVERY_MS = 20;
const LOOK = `SELECT count(*)::int AS waiters FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'`;

export async function watchLocks(server: string): Promise<{ stop(): Promise<LockWaits> }> {
  const client = new pg.Client(server);
  await client.connect();
  const samples: number[] = [];
  const over = new AbortController();
  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ waiters: number }>({ name: "look", text: LOOK });
      samples.push(rows[0]?.waiters ?? 0);
      await delay(LOOK_EVERY_MS);
    }
  };
  const watching = watch();
  return {
    stop: async () => {
      over.abort();
      await watching;
      await client.end();
      const sum = samples.reduce((total, each) => total + each, 0);
      return { lockWaiters: sum / samples.length, lockWaitersMax: Math.max(...samples) };
    },
  };
}
