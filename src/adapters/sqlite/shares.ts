/** How far each tenant has been served, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import {
  addUse,
  applyUse,
  createUse,
  FIRST_CLOCK,
  type LeaseAccount,
  type LeaseUse,
  type ShareClock,
  type ShareUse,
  settleUse,
  smoothItemMs,
  type TenantShare,
} from "../../core/fair-share.ts";
import { nameTenant } from "../../core/limit.ts";
import type { Connection } from "./connection.ts";

export interface ShareRow {
  readonly tenant: string;
  readonly finish: number;
  readonly owed: number;
  /** NULL before its first lease. */
  readonly item_ms: number | null;
  readonly weight: number;
}

interface StepShareRow extends ShareRow {
  readonly pipeline: string;
}

/** The part of a chunk's row that its account is kept in. */
export interface AccountRow {
  readonly batch: number;
  readonly step: number;
  readonly charge: number;
  readonly busy_ms: number;
}

export class Shares {
  readonly #selectClock: StatementSync;
  readonly #putClock: StatementSync;
  readonly #update: StatementSync;
  readonly #selectOfStep: StatementSync;
  readonly #hasUnfinished: StatementSync;
  readonly #dropAll: StatementSync;
  readonly #dropPassed: StatementSync;

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
    this.#hasUnfinished = prepare(
      `SELECT 1 FROM batch INDEXED BY batch_unfinished WHERE pipeline = ? AND ended_at IS NULL
       LIMIT 1`,
    );
    this.#dropAll = prepare("DELETE FROM share WHERE pipeline = ?");
    this.#dropPassed = prepare(
      `DELETE FROM share WHERE pipeline = ? AND finish <= ? AND NOT EXISTS (
         SELECT 1 FROM batch b INDEXED BY batch_unfinished_of_tenant
         WHERE b.pipeline = share.pipeline AND b.tenant = share.tenant AND b.ended_at IS NULL)`,
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

  findOfStep(batch: number, step: number): StepShareRow | undefined {
    return this.#selectOfStep.get(batch, step) as StepShareRow | undefined;
  }

  /**
   * Forgets tenants that have nothing left to do, once their tag says no more than the present. Not
   * before: one batch after the other would each begin anew, and their tenant would gain by that.
   */
  tidy(pipeline: string): void {
    if (this.#hasUnfinished.get(pipeline) === undefined) this.#dropAll.run(pipeline);
    else this.#dropPassed.run(pipeline, this.getClock(pipeline).virtual);
  }

  /** Reports of one commit, step by step. */
  beginUses(): Uses {
    return new Uses(this);
  }
}

export function readShare(row: ShareRow, { itemMs }: ShareClock): TenantShare {
  const { finish, owed, item_ms: known, weight } = row;
  return { finish, owed, itemMs: known ?? itemMs, weight };
}

interface StepUse {
  /** Undefined when nothing is known of the tenant. */
  readonly row: StepShareRow | undefined;
  readonly use: ShareUse;
}

/** What the reports of one commit say of their tenants' work: one update a step and commit. */
export class Uses {
  readonly #shares: Shares;
  readonly #uses = new Map<string, StepUse>();

  constructor(shares: Shares) {
    this.#shares = shares;
  }

  add(row: AccountRow, said: LeaseUse & { readonly tried: number }): LeaseAccount {
    const entry = this.#open(row);
    const before = { charge: row.charge, busyMs: row.busy_ms };
    const after = settleUse(before, said, entry.row?.weight ?? 1);
    addUse(entry.use, before, after, said.tried);
    return after;
  }

  #open({ batch, step }: AccountRow): StepUse {
    const name = `${batch}/${step}`;
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const entry = { row: this.#shares.findOfStep(batch, step), use: createUse() };
    this.#uses.set(name, entry);
    return entry;
  }

  apply(): void {
    const shares = new Map<string, TenantShare>();
    const clocks = new Map<string, ShareClock>();
    for (const { row, use } of this.#uses.values()) {
      if (row === undefined) continue;
      const { pipeline, tenant } = row;
      const clock = clocks.get(pipeline) ?? this.#shares.getClock(pipeline);
      const name = nameTenant(pipeline, tenant);
      const share = applyUse(shares.get(name) ?? readShare(row, clock), use);
      shares.set(name, share);
      this.#shares.save(pipeline, tenant, share);
      clocks.set(pipeline, { ...clock, itemMs: smoothItemMs(clock.itemMs, use) });
    }
    for (const [pipeline, clock] of clocks) this.#shares.saveClock(pipeline, clock);
  }
}
