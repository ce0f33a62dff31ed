/** Claims on background tasks that one worker at a time should do. */
import type { Host } from "../host.ts";
import { type Act, answered } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

interface ClaimRow {
  readonly worker: number;
  readonly until: number;
  readonly process: string | null;
}

const FIND = statement(
  `SELECT c.worker, c.until, w.process
   FROM claim c LEFT JOIN worker w ON w.id = c.worker WHERE c.task = $1`,
);
// Of several workers at once the first one gets it: the row decides, not the read before.
const PUT = statement(
  `INSERT INTO claim (task, worker, until) VALUES ($1, $2, $3)
   ON CONFLICT (task) DO UPDATE SET worker = excluded.worker, until = excluded.until
   WHERE claim.worker = excluded.worker OR claim.until <= $4 OR claim.worker = $5`,
);
const DELETE = statement("DELETE FROM claim WHERE task = $1 AND worker = $2");

export class TaskClaims {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  *claim(tx: RuleTransaction, task: string, worker: number, forMs: number): Act<boolean> {
    const held = yield* tx.get<ClaimRow>(FIND, task);
    if (this.#isHeld(tx, held, worker)) return false;
    const now = Math.floor(tx.now);
    // The claim has not expired, but it does not count: its process is gone.
    const gone = held !== undefined && held.until > now ? held.worker : null;
    return (yield* tx.run(PUT, task, worker, Math.floor(tx.now + forMs), now, gone)) > 0;
  }

  /** Another worker has it. */
  *isTaken(tx: RuleTransaction, task: string, worker: number): Act<boolean> {
    return this.#isHeld(tx, yield* tx.get<ClaimRow>(FIND, task), worker);
  }

  #isHeld(tx: RuleTransaction, held: ClaimRow | undefined, worker: number): boolean {
    return (
      held !== undefined &&
      held.worker !== worker &&
      held.until > Math.floor(tx.now) &&
      this.#lives(held)
    );
  }

  #lives({ process }: ClaimRow): boolean {
    return process === null || !this.#host.isGone(process);
  }

  unclaim(tx: RuleTransaction, task: string, worker: number): Act<void> {
    tx.send(DELETE, task, worker);
    // Another process may be waiting for it.
    tx.notify();
    return answered(undefined);
  }
}
