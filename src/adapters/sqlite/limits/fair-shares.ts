/** The fair shares of tenants, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { FIRST_CLOCK, type ShareClock, type TenantShare } from "../../../core/limits/fair-share.ts";
import { type StepShareRow, LeaseUsage } from "../../sql/lease-usage.ts";
import type { Connection } from "../connection/connection.ts";

export class FairShares {
  readonly #selectClock: StatementSync;
  readonly #putClock: StatementSync;
  readonly #update: StatementSync;
  readonly #selectOfStep: StatementSync;

  constructor(connection: Connection) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectClock = prepare(
      "SELECT virtual, item_ms, turns FROM share_clock WHERE pipeline = ?",
    );
    this.#putClock = prepare(
      `INSERT INTO share_clock (pipeline, virtual, item_ms, turns) VALUES (?, ?, ?, ?)
       ON CONFLICT (pipeline) DO UPDATE SET virtual = excluded.virtual,
         item_ms = excluded.item_ms, turns = excluded.turns`,
    );
    this.#update = prepare(
      `UPDATE share SET finish = ?, owed = ?, item_ms = ?, weight = ?
       WHERE pipeline = ? AND tenant = ?`,
    );
    this.#selectOfStep = prepare(
      `SELECT s.pipeline, h.tenant, h.finish, h.owed, h.item_ms, h.weight
       FROM step s JOIN share h ON h.pipeline = s.pipeline AND h.tenant = s.tenant
       WHERE s.batch = ? AND s.step = ?`,
    );
  }

  getClock(pipeline: string): ShareClock {
    type Row = { virtual: number; item_ms: number; turns: number };
    const row = this.#selectClock.get(pipeline) as Row | undefined;
    if (row === undefined) return FIRST_CLOCK;
    return { virtual: row.virtual, itemMs: row.item_ms, turns: row.turns };
  }

  saveClock(pipeline: string, { virtual, itemMs, turns }: ShareClock): void {
    this.#putClock.run(pipeline, virtual, itemMs, turns);
  }

  save(pipeline: string, tenant: string, share: TenantShare): void {
    const { finish, owed, itemMs, weight } = share;
    this.#update.run(finish, owed, itemMs, weight, pipeline, tenant);
  }

  /** The reports of one commit, by step. */
  beginUses(): LeaseUsage {
    return new LeaseUsage(
      ({ batch, step }) => this.#selectOfStep.get(batch, step) as StepShareRow | undefined,
      (pipeline) => this.getClock(pipeline),
    );
  }

  saveUses(leaseUsage: LeaseUsage): void {
    const { shares, clocks } = leaseUsage.total();
    for (const { pipeline, tenant, share } of shares) this.save(pipeline, tenant, share);
    for (const [pipeline, clock] of clocks) this.saveClock(pipeline, clock);
  }
}
