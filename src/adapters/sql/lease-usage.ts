/** The use of tenants' shares that the reports of one commit make. */
import {
  addUse,
  applyUse,
  createUse,
  type LeaseAccount,
  type LeaseUse,
  type ShareClock,
  type ShareUse,
  settleUse,
  smoothItemMs,
  type TenantShare,
} from "../../core/limits/fair-share.ts";
import { nameTenant } from "../../core/limits/limit.ts";

export interface ShareRow {
  readonly tenant: string;
  readonly finish: number;
  readonly owed: number;
  /** NULL before its first lease. */
  readonly item_ms: number | null;
  readonly weight: number;
}

export interface StepShareRow extends ShareRow {
  readonly pipeline: string;
}

/** The columns of a chunk's row for its lease's account. */
export interface AccountRow {
  readonly batch: number;
  readonly step: number;
  readonly charge: number;
  readonly busy_ms: number;
}

export function readShare(row: ShareRow, { itemMs }: ShareClock): TenantShare {
  const { finish, owed, item_ms: known, weight } = row;
  return { finish, owed, itemMs: known ?? itemMs, weight };
}

interface StepUse {
  /** Undefined for an unknown tenant. */
  readonly row: StepShareRow | undefined;
  readonly use: ShareUse;
}

export interface NamedShare {
  readonly pipeline: string;
  readonly tenant: string;
  readonly share: TenantShare;
}

/** One update per tenant and commit, however many chunks were reported. */
export class LeaseUsage {
  readonly #find: (step: AccountRow) => StepShareRow | undefined;
  readonly #getClock: (pipeline: string) => ShareClock;
  readonly #uses = new Map<string, StepUse>();

  constructor(
    find: (step: AccountRow) => StepShareRow | undefined,
    getClock: (pipeline: string) => ShareClock,
  ) {
    this.#find = find;
    this.#getClock = getClock;
  }

  add(row: AccountRow, said: LeaseUse & { readonly tried: number }): LeaseAccount {
    const entry = this.#open(row);
    const before = { charge: row.charge, busyMs: row.busy_ms };
    const after = settleUse(before, said, entry.row?.weight ?? 1);
    addUse(entry.use, before, after, said.tried);
    return after;
  }

  #open(row: AccountRow): StepUse {
    const name = `${row.batch}/${row.step}`;
    const known = this.#uses.get(name);
    if (known !== undefined) return known;
    const entry = { row: this.#find(row), use: createUse() };
    this.#uses.set(name, entry);
    return entry;
  }

  /** The tenants' shares and their pipelines' clocks afterwards. */
  total(): { readonly shares: NamedShare[]; readonly clocks: Map<string, ShareClock> } {
    const shares = new Map<string, NamedShare>();
    const clocks = new Map<string, ShareClock>();
    for (const { row, use } of this.#uses.values()) {
      if (row === undefined) continue;
      const { pipeline, tenant } = row;
      const clock = clocks.get(pipeline) ?? this.#getClock(pipeline);
      const name = nameTenant(pipeline, tenant);
      const share = applyUse(shares.get(name)?.share ?? readShare(row, clock), use);
      shares.set(name, { pipeline, tenant, share });
      clocks.set(pipeline, { ...clock, itemMs: smoothItemMs(clock.itemMs, use) });
    }
    return { shares: [...shares.values()], clocks };
  }
}
