/** The workers of a store, their pipelines, and which of them are gone. */
import type { Served, WorkerFacts } from "../../../ports/store/worker-store.ts";
import type { Act } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { Host } from "../host.ts";

/** On a server: a worker without a heartbeat for this long is gone, on whatever host it ran. */
const SILENT_MS = 86_400_000;

interface WorkerRow {
  readonly id: number;
  readonly process: string;
}

const INSERT = statement(
  "INSERT INTO worker (name, process, registered_at) VALUES ($1, $2, $3) RETURNING id",
);
// Several may register at once: rows that another transaction has locked are left to it.
const DELETE_CLAIMS = statement(
  `DELETE FROM claim WHERE /*sqlite until <= $1*/
   /*postgres task IN (SELECT task FROM claim WHERE until <= $1 FOR UPDATE SKIP LOCKED)*/`,
);
const SELECT_IDLE = statement(
  `SELECT id, process/*postgres , greatest(until, registered_at) AS seen_at*/ FROM worker
   WHERE id NOT IN (SELECT worker FROM claim)
     /*postgres AND id NOT IN (SELECT worker FROM lease)*/
     AND id NOT IN (SELECT worker FROM chunk /*sqlite INDEXED BY chunk_lease*/
       WHERE state = 'leased' /*postgres AND worker > 0*/)
   /*postgres FOR UPDATE SKIP LOCKED*/`,
);
const DELETE = [
  "DELETE FROM worker WHERE id",
  "DELETE FROM served WHERE worker",
  "DELETE FROM permit WHERE worker",
].map((text) => statement(`${text} /*sqlite = $1*//*postgres = ANY($1::bigint[])*/`));
const BEAT = statement("UPDATE worker SET until = $2 WHERE id = $1");
// A worker's pipelines seldom change: unchanged rows are not rewritten with every heartbeat.
const SERVES = `/*sqlite (SELECT p.value AS pipeline, v.value AS version, b.value AS only_batch
    FROM json_each($2) p JOIN json_each($3) v ON v.key = p.key
    JOIN json_each($4) b ON b.key = p.key) AS n*/
  /*postgres unnest($2::text[], $3::text[], $4::text[]) AS n(pipeline, version, only_batch)*/`;
const UNSERVE = statement(
  `DELETE FROM served AS s WHERE s.worker = $1 AND NOT EXISTS (
     SELECT 1 FROM ${SERVES} WHERE n.pipeline = s.pipeline AND n.version = s.version
       AND n.only_batch = s.only_batch)`,
);
const SERVE = statement(
  `INSERT INTO served (worker, pipeline, version, only_batch)
   SELECT $1, n.pipeline, n.version, n.only_batch FROM ${SERVES} WHERE true ON CONFLICT DO NOTHING`,
);
const SELECT_HOLDERS = statement(
  `SELECT /*sqlite DISTINCT*/ c.worker AS id, w.process
   FROM chunk c /*sqlite INDEXED BY chunk_lease*/ JOIN worker w ON w.id = c.worker
   WHERE c.state = 'leased' /*postgres AND c.worker > 0
   UNION SELECT w.id, w.process FROM lease l JOIN worker w ON w.id = l.worker*/
   UNION SELECT w.id, w.process FROM permit p JOIN worker w ON w.id = p.worker`,
);

export class Workers {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Also removes workers that are gone and hold nothing: their rows would pile up. */
  *register(tx: RuleTransaction, { name }: WorkerFacts): Act<number> {
    yield* tx.begin();
    tx.send(DELETE_CLAIMS, Math.floor(tx.now));
    const idle = yield* tx.all<WorkerRow & { readonly seen_at?: number }>(SELECT_IDLE);
    const silent = idle.filter(({ seen_at: seenAt = tx.now }) => tx.now - seenAt > SILENT_MS);
    const gone = [...new Set([...this.#listGone(idle), ...silent.map(({ id }) => id)])];
    for (const drop of DELETE) tx.sendEach(drop, [], gone);
    const row = yield* tx.get(INSERT, name, this.#host.process, tx.wallMs);
    return (row as { readonly id: number }).id;
  }

  *beat(tx: RuleTransaction, worker: number, serves: readonly Served[], forMs: number): Act<void> {
    yield* tx.begin();
    tx.send(BEAT, worker, Math.floor(tx.now + forMs));
    const pipelines = serves.map(({ pipeline }) => pipeline);
    const versions = serves.map(({ version }) => version);
    const batches = serves.map(({ batch = "" }) => batch);
    tx.send(UNSERVE, worker, pipelines, versions, batches);
    tx.send(SERVE, worker, pipelines, versions, batches);
  }

  /** Workers that hold leases or permits and are dead. */
  *listGoneHolders(tx: RuleTransaction): Act<number[]> {
    return this.#listGone(yield* tx.all<WorkerRow>(SELECT_HOLDERS));
  }

  #listGone(rows: readonly WorkerRow[]): number[] {
    return rows.filter(({ process }) => this.#host.isGone(process)).map(({ id }) => id);
  }
}
