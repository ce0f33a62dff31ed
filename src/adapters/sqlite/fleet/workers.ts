/** The workers of this file, their pipelines, and which of them are gone. */
import type { StatementSync } from "node:sqlite";
import type { Clock } from "../../../ports/clock.ts";
import type { Served, WorkerFacts } from "../../../ports/store/worker-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { Host } from "../../sql/host.ts";

interface WorkerRow {
  readonly id: number;
  readonly process: string;
}

export class Workers {
  readonly #clock: Clock;
  readonly #host: Host;
  readonly #insert: StatementSync;
  readonly #deleteClaims: StatementSync;
  readonly #selectIdle: StatementSync;
  readonly #delete: readonly StatementSync[];
  readonly #beat: StatementSync;
  readonly #unserve: StatementSync;
  readonly #serve: StatementSync;
  readonly #selectHolders: StatementSync;

  constructor(connection: Connection, clock: Clock, host: Host) {
    this.#clock = clock;
    this.#host = host;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#insert = prepare("INSERT INTO worker (name, process, registered_at) VALUES (?, ?, ?)");
    this.#deleteClaims = prepare("DELETE FROM claim WHERE until <= ?");
    this.#selectIdle = prepare(
      `SELECT id, process FROM worker WHERE id NOT IN (SELECT worker FROM claim) AND id NOT IN (
         SELECT worker FROM chunk INDEXED BY chunk_lease WHERE state = 'leased')`,
    );
    this.#delete = [
      "DELETE FROM worker WHERE id = ?",
      "DELETE FROM served WHERE worker = ?",
      "DELETE FROM permit WHERE worker = ?",
    ].map(prepare);
    this.#beat = prepare("UPDATE worker SET until = ? WHERE id = ?");
    this.#unserve = prepare("DELETE FROM served WHERE worker = ?");
    this.#serve = prepare(
      `INSERT INTO served (worker, pipeline, version, only_batch) VALUES (?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
    );
    this.#selectHolders = prepare(
      `SELECT DISTINCT c.worker AS id, w.process
       FROM chunk c INDEXED BY chunk_lease JOIN worker w ON w.id = c.worker
       WHERE c.state = 'leased'
       UNION SELECT w.id, w.process FROM permit p JOIN worker w ON w.id = p.worker`,
    );
  }

  /** Also removes workers whose process is gone and that hold nothing: their rows would pile up. */
  register({ name }: WorkerFacts): number {
    this.#deleteClaims.run(Math.floor(this.#clock.monotonicMs()));
    const idle = this.#selectIdle.all() as unknown as WorkerRow[];
    for (const { id, process } of idle) {
      if (this.#host.isGone(process)) for (const statement of this.#delete) statement.run(id);
    }
    const facts = [name, this.#host.process, this.#clock.wallMs()];
    return Number(this.#insert.run(...facts).lastInsertRowid);
  }

  beat(worker: number, serves: readonly Served[], forMs: number): void {
    this.#beat.run(Math.floor(this.#clock.monotonicMs()) + forMs, worker);
    this.#unserve.run(worker);
    for (const { pipeline, version, batch = "" } of serves) {
      this.#serve.run(worker, pipeline, version, batch);
    }
  }

  /** Workers that hold leases or permits and are dead. */
  listGoneHolders(): number[] {
    const holders = this.#selectHolders.all() as unknown as WorkerRow[];
    return holders.filter(({ process }) => this.#host.isGone(process)).map(({ id }) => id);
  }
}
