/**
 * Writes readings into your own database, one transaction for each chunk. A chunk that runs twice
 * still leaves each row once.
 *
 *   npx sluice run examples/bulk-insert.ts --input-json '{"rows": 1000, "database": "readings.db"}'
 */
import { DatabaseSync } from "node:sqlite";
import { definePipeline, succeeded } from "sluice";

interface Input {
  readonly rows: number;
  readonly database: string;
}

interface Reading {
  readonly database: string;
  readonly sensor: string;
  readonly value: number;
}

export default definePipeline({
  name: "bulk-insert",
  chunkSize: 250,
  concurrency: 1,
  source: ({ input }: { input: Input }) => makeReadings(input),
  processChunk(items) {
    const db = openReadings(items[0]?.item.database ?? "readings.db");
    const insert = db.prepare(
      "INSERT INTO reading (id, sensor, value) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
    );
    db.exec("BEGIN IMMEDIATE");
    // The key is the same in every attempt of an item, so a second insert of the row does nothing.
    for (const { item, idempotencyKey } of items) {
      insert.run(idempotencyKey, item.sensor, item.value);
    }
    db.exec("COMMIT");
    db.close();
    return items.map(() => succeeded());
  },
});

function openReadings(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  db.exec(
    "CREATE TABLE IF NOT EXISTS reading (id TEXT PRIMARY KEY, sensor TEXT, value REAL) STRICT",
  );
  return db;
}

/** Stands in for an API or a device: any iterable is a source. */
function* makeReadings({ rows, database }: Input): Generator<Reading> {
  for (let n = 0; n < rows; n++) yield { database, sensor: `s${n % 7}`, value: (n * 37) % 100 };
}
