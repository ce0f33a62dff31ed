/** Claims on background tasks that one worker at a time should do. */
import type { StatementSync } from "node:sqlite";
import type { Clock } from "../../../ports/clock.ts";
import type { Connection } from "../connection/connection.ts";
import type { Host } from "../../sql/host.ts";

interface ClaimRow {
  readonly worker: number;
  readonly until: number;
  readonly process: string | null;
}

export class TaskClaims {
  readonly #clock: Clock;
  readonly #host: Host;
  readonly #select: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;

  constructor(connection: Connection, clock: Clock, host: Host) {
    this.#clock = clock;
    this.#host = host;
    this.#select = connection.prepare(
      `SELECT c.worker, c.until, w.process
       FROM claim c LEFT JOIN worker w ON w.id = c.worker WHERE c.task = ?`,
    );
    this.#put = connection.prepare(
      `INSERT INTO claim (task, worker, until) VALUES (?, ?, ?)
       ON CONFLICT (task) DO UPDATE SET worker = excluded.worker, until = excluded.until`,
    );
    this.#delete = connection.prepare("DELETE FROM claim WHERE task = ? AND worker = ?");
  }

  claim(task: string, worker: number, forMs: number): boolean {
    if (this.isTaken(task, worker)) return false;
    this.#put.run(task, worker, this.#now() + forMs);
    return true;
  }

  /** Another worker has it. */
  isTaken(task: string, worker: number): boolean {
    const held = this.#select.get(task) as ClaimRow | undefined;
    return (
      held !== undefined && held.worker !== worker && held.until > this.#now() && this.#lives(held)
    );
  }

  #now(): number {
    return Math.floor(this.#clock.monotonicMs());
  }

  #lives({ process }: ClaimRow): boolean {
    return process === null || !this.#host.isGone(process);
  }

  unclaim(task: string, worker: number): void {
    this.#delete.run(task, worker);
  }
}
