/**
 * The server is lost, and a standby replaces it: first read-only, then promoted. Workers survive
 * both, and everything acknowledged is there.
 */
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { expect, test } from "vitest";
import { createEngine, definePipeline, SluiceError } from "../../src/index.ts";
import type { LogEntry } from "../../src/runtime/system/log.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { startOwnPostgres } from "../support/postgres-server.ts";

const ITEMS = 2_000;
const WAIT_MS = 4;
const LEASE = { leaseMs: 3_000, pollMs: 200 };

async function run(address: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client(address);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

test("after a failover to a standby the batch continues there, and nothing acknowledged is lost", async () => {
  const primary = await startOwnPostgres();
  const standby = await primary.startStandby();
  const proxy = await CuttingProxy.start(primary.address);
  const done = Promise.withResolvers<void>();
  let finished = 0;
  const refused = Promise.withResolvers<void>();
  const slow = definePipeline({
    name: "slow",
    chunkSize: 20,
    process: async (n: number) => {
      await setTimeout(WAIT_MS);
      if (++finished === ITEMS / 4) done.resolve();
      return n;
    },
  });
  try {
    // A commit is acknowledged when the standby has it.
    await run(
      primary.address,
      "ALTER SYSTEM SET synchronous_standby_names = '*'",
      "ALTER SYSTEM SET synchronous_commit = 'remote_apply'",
      "SELECT pg_reload_conf()",
    );
    const log = ({ error }: LogEntry): void => {
      if (error instanceof SluiceError && error.code === "STORE_READ_ONLY") refused.resolve();
    };
    const engine = await createEngine({ store: proxy.address, log, ...LEASE });
    try {
      const batch = await engine.submit(
        slow,
        Array.from({ length: ITEMS }, (_, n) => n),
      );
      await done.promise;
      const before = await batch.progress();
      await primary.stop();
      proxy.pointTo(standby.address);
      await expect(createEngine({ store: standby.address, ...LEASE })).rejects.toMatchObject({
        code: "STORE_READ_ONLY",
        retryable: true,
        hint: expect.stringMatching(/primary/) as string,
      });
      await refused.promise;
      await run(standby.address, "SELECT pg_promote()");
      const { state, counts } = await batch.wait();
      expect({ state, counts }).toMatchObject({ state: "succeeded", counts: { succeeded: ITEMS } });
      expect(before.counts.succeeded).toBeGreaterThan(0);
      const values = new Set<unknown>();
      for await (const { value } of batch.results()) values.add(value);
      expect(values.size).toBe(ITEMS);
      // Only running items can run again.
      expect(finished).toBeLessThan(2 * ITEMS);
    } finally {
      await engine.close();
    }
  } finally {
    await proxy.close();
    await standby.stop();
    await primary.stop();
  }
});
