/**
 * The fair shares of tenants, in SQL. Every method runs inside the caller's transaction. A tenant's
 * row is locked before it is read for a change: a report waits for it, in the order of tenants; a
 * lease takes it only if it is free. All batches of a pipeline share its clock, so no transaction
 * waits for it: if it is locked, the update is left to the transaction that has it.
 */
import { FIRST_CLOCK, type ShareClock } from "../../../core/limits/fair-share.ts";
import {
  type NamedShare,
  type ShareRow,
  type StepShareRow,
  LeaseUsage,
} from "../../sql/lease-usage.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_CLOCKS = statement(
  "SELECT pipeline, virtual, item_ms FROM share_clock WHERE pipeline = ANY($1::text[])",
);
const SAVE_CLOCK = statement(
  `UPDATE share_clock SET virtual = greatest(virtual, $2), item_ms = $3 WHERE pipeline = (
     SELECT pipeline FROM share_clock WHERE pipeline = $1 FOR UPDATE SKIP LOCKED)`,
);
const SAVE = statement(
  `UPDATE share h SET finish = n.finish, owed = n.owed, item_ms = n.item_ms, weight = n.weight
   FROM unnest($1::text[], $2::text[], $3::float8[], $4::float8[], $5::float8[], $6::float8[])
     AS n(pipeline, tenant, finish, owed, item_ms, weight)
   ${byKey("share", "pipeline = n.pipeline AND tenant = n.tenant")}
   WHERE h.ctid = found.ctid`,
);
const LOCK_OF_STEPS = statement(
  `SELECT s.batch, s.step, s.pipeline, h.tenant, h.finish, h.owed, h.item_ms, h.weight
   FROM (SELECT DISTINCT id, step FROM unnest($1::text[], $2::int[]) AS r(id, step)) AS r
   JOIN batch b ON b.id = r.id JOIN step s ON s.batch = b.num AND s.step = r.step
   JOIN share h ON h.pipeline = s.pipeline AND h.tenant = s.tenant
   ORDER BY h.pipeline, h.tenant FOR NO KEY UPDATE OF h`,
);
const TRY_LOCK = statement(
  `SELECT tenant, finish, owed, item_ms, weight FROM share
   WHERE pipeline = $1 AND tenant = $2 FOR NO KEY UPDATE SKIP LOCKED`,
);

interface ClockRow {
  readonly pipeline: string;
  readonly virtual: number;
  readonly item_ms: number;
}

/** The shares of the reported steps, and the clocks of their pipelines. */
export interface LockedShares {
  readonly rows: readonly (StepShareRow & { readonly batch: number; readonly step: number })[];
  readonly clocks: ReadonlyMap<string, ShareClock>;
}

export class FairShares {
  async getClock(tx: Transaction, pipeline: string): Promise<ShareClock> {
    return (await this.#readClocks(tx, [pipeline])).get(pipeline) ?? FIRST_CLOCK;
  }

  async #readClocks(
    tx: Transaction,
    pipelines: readonly string[],
  ): Promise<Map<string, ShareClock>> {
    const rows = await tx.all<ClockRow>(SELECT_CLOCKS, pipelines);
    return new Map(
      rows.map((row) => [
        row.pipeline,
        { virtual: row.virtual, itemMs: row.item_ms, turns: FIRST_CLOCK.turns },
      ]),
    );
  }

  saveClock(tx: Transaction, pipeline: string, { virtual, itemMs }: ShareClock): void {
    tx.send(SAVE_CLOCK, pipeline, virtual, itemMs);
  }

  save(tx: Transaction, shares: readonly NamedShare[]): void {
    if (shares.length === 0) return;
    tx.send(
      SAVE,
      shares.map(({ pipeline }) => pipeline),
      shares.map(({ tenant }) => tenant),
      shares.map(({ share }) => share.finish),
      shares.map(({ share }) => share.owed),
      shares.map(({ share }) => share.itemMs),
      shares.map(({ share }) => share.weight),
    );
  }

  /** Waits for the shares of these steps. */
  lockOfSteps(
    tx: Transaction,
    steps: readonly { readonly batch: string; readonly step: number }[],
  ): Promise<LockedShares["rows"]> {
    return tx.all(
      LOCK_OF_STEPS,
      steps.map(({ batch }) => batch),
      steps.map(({ step }) => step),
    );
  }

  /** A tenant's share, unless another transaction is changing it. */
  tryLock(tx: Transaction, pipeline: string, tenant: string): Promise<ShareRow | undefined> {
    return tx.get<ShareRow>(TRY_LOCK, pipeline, tenant);
  }

  /** The reports of one commit, by step. */
  async beginUses(tx: Transaction, rows: LockedShares["rows"]): Promise<LeaseUsage> {
    const pipelines = [...new Set(rows.map(({ pipeline }) => pipeline))];
    const clocks = await this.#readClocks(tx, pipelines);
    const byStep = new Map(rows.map((row) => [`${row.batch}/${row.step}`, row]));
    return new LeaseUsage(
      ({ batch, step }) => byStep.get(`${batch}/${step}`),
      (pipeline) => clocks.get(pipeline) ?? FIRST_CLOCK,
    );
  }

  saveUses(tx: Transaction, leaseUsage: LeaseUsage): void {
    const { shares, clocks } = leaseUsage.total();
    this.save(tx, shares);
    for (const [pipeline, clock] of clocks) this.saveClock(tx, pipeline, clock);
  }
}
