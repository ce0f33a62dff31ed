/**
 * What an idle worker costs the server: transactions of its database, as the server counts them,
 * while a real `sluice work` with its health pages waits. Sluice polls with one transaction of
 * several statements that are sent together, so this is the number of its polls. The reader of the
 * counters uses another database and is not counted. Autovacuum would be counted, so it is off.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";

interface IdleOptions {
  readonly server: string;
  readonly seconds: number;
}

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const COMMAND = join(ROOT, "dist/cli/main.js");
const PIPELINE = `import { definePipeline } from "sluice";
export default definePipeline({ name: "bench", source: () => [1, 2, 3], process: () => {} });
`;
/** An idle session publishes its counters after at most 10 s. */
const SETTLE_MS = 12_000;
const READ = `SELECT (xact_commit + xact_rollback)::float8 AS transactions FROM pg_stat_database
  WHERE datname = $1`;

async function measureIdle({ server, seconds }: IdleOptions): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-idle-"));
  writeFileSync(join(folder, "bench.ts"), PIPELINE);
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(ROOT, join(folder, "node_modules/sluice"));
  const start = (...args: readonly string[]): ChildProcess =>
    spawn(process.execPath, [COMMAND, ...args, "--store", server], {
      cwd: folder,
      stdio: ["ignore", "pipe", "inherit"],
    });
  const address = new URL(server);
  const database = address.pathname.slice(1);
  address.pathname = "/postgres";
  const client = new pg.Client(address.href);
  await client.connect();
  const read = async (): Promise<number> => {
    const { rows } = await client.query<{ transactions: number }>(READ, [database]);
    return rows[0]?.transactions ?? Number.NaN;
  };
  const worker = start("work", "bench.ts", "--health-port", "0");
  try {
    await client.query("ALTER SYSTEM SET autovacuum = off");
    await client.query("SELECT pg_reload_conf()");
    const [code] = (await once(start("run", "bench.ts"), "exit")) as [number | null];
    checkCount("the exit code", code ?? -1, 0);
    await delay(SETTLE_MS);
    const before = await read();
    const startedAt = performance.now();
    await delay(seconds * 1_000);
    return { transactionsPerSecond: ((await read()) - before) / elapsedSeconds(startedAt) };
  } finally {
    await client.query("ALTER SYSTEM RESET autovacuum");
    await client.query("SELECT pg_reload_conf()");
    await client.end();
    worker.kill("SIGTERM");
    await once(worker, "exit");
    rmSync(folder, { recursive: true, force: true });
  }
}

await runSubject(measureIdle);
