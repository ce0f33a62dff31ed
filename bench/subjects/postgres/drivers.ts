/**
 * One transaction like Sluice's on each driver, again and again on one connection: BEGIN, a few
 * statements that do not depend on each other, COMMIT. `pg` sends them all without waiting
 * (`pipeline`); `postgres` waits for the answer to its BEGIN, sends the statements together, and
 * waits before its COMMIT.
 */
import pg from "pg";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";
import { importPeer } from "./queue-run.ts";

interface DriverOptions {
  readonly server: string;
  readonly driver: "pg" | "postgres";
  readonly transactions: number;
}

interface Sql {
  unsafe(text: string, values: readonly unknown[], options: { prepare: boolean }): Promise<unknown>;
  begin(work: (sql: Sql) => readonly Promise<unknown>[]): Promise<unknown>;
  end(): Promise<void>;
}
interface PostgresModule {
  readonly default: (server: string, options: object) => Sql;
}

const CREATE = `CREATE TABLE chunk (id int PRIMARY KEY, state int NOT NULL) WITH (fillfactor = 50);
  INSERT INTO chunk SELECT n, 0 FROM generate_series(1, 1000) AS n`;
const IDS = Array.from({ length: 20 }, (_, at) => at * 7 + 1);
const STATEMENTS: readonly pg.QueryConfig<unknown[]>[] = [
  { name: "time", text: "SELECT clock_timestamp()::text AS now", values: [] },
  { name: "lock", text: "SELECT id FROM chunk WHERE id = $1 FOR NO KEY UPDATE", values: [1] },
  { name: "read", text: "SELECT id, state FROM chunk WHERE id = ANY($1::int[])", values: [IDS] },
  {
    name: "write",
    text: "UPDATE chunk SET state = state + 1 WHERE id = ANY($1::int[])",
    values: [IDS],
  },
];

async function runPg(server: string, transactions: number): Promise<number> {
  const client = new pg.Client({ connectionString: server, pipeline: true });
  await client.connect();
  try {
    const startedAt = performance.now();
    for (let done = 0; done < transactions; done++) {
      await Promise.all([
        client.query("BEGIN"),
        ...STATEMENTS.map((statement) => client.query(statement)),
        client.query("COMMIT"),
      ]);
    }
    return elapsedSeconds(startedAt);
  } finally {
    await client.end();
  }
}

async function runPostgres(server: string, transactions: number): Promise<number> {
  const { default: postgres } = await importPeer<PostgresModule>("postgres");
  const sql = postgres(server, { max: 1 });
  try {
    const startedAt = performance.now();
    for (let done = 0; done < transactions; done++) {
      await sql.begin((inside) =>
        STATEMENTS.map(({ text, values }) => inside.unsafe(text, values ?? [], { prepare: true })),
      );
    }
    return elapsedSeconds(startedAt);
  } finally {
    await sql.end();
  }
}

async function measureDriver({ server, driver, transactions }: DriverOptions): Promise<Figures> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await client.query(CREATE);
    const run = driver === "pg" ? runPg : runPostgres;
    const seconds = await run(server, transactions);
    const { rows } = await client.query<{ state: number }>("SELECT state FROM chunk WHERE id = 1");
    checkCount("transactions", rows[0]?.state ?? 0, transactions);
    return { seconds, transactionsPerSecond: transactions / seconds };
  } finally {
    await client.end();
  }
}

await runSubject(measureDriver);
