/** The fair shares of tenants, on the reference model. */
import { isEnded } from "../../core/batch/batch.ts";
import {
  addUse,
  applyUse,
  createShare,
  createUse,
  FIRST_CLOCK,
  type LeaseUse,
  type ShareClock,
  type ShareUse,
  settleUse,
  smoothItemMs,
  type TenantShare,
} from "../../core/limits/fair-share.ts";
import { nameTenant } from "../../core/limits/limit.ts";
import { type Batch, type Chunk, nameLimit, type State, type Step } from "./state.ts";

export class FairShares {
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  getClock(pipeline: string): ShareClock {
    return this.#state.shareClocks.get(pipeline) ?? FIRST_CLOCK;
  }

  setClock(pipeline: string, clock: ShareClock): void {
    this.#state.shareClocks.set(pipeline, clock);
  }

  /** A tenant's share as its next lease reads it. */
  get(pipeline: string, tenant: string): TenantShare {
    const weight = this.#findWeight(pipeline, tenant);
    const known = this.#state.shares.get(nameTenant(pipeline, tenant));
    if (known === undefined) return createShare(this.getClock(pipeline), weight);
    return { ...known, weight };
  }

  set(pipeline: string, tenant: string, share: TenantShare): void {
    this.#state.shares.set(nameTenant(pipeline, tenant), share);
  }

  /** The operator's weight, or the one that the tenant's newest batch declares. */
  #findWeight(pipeline: string, tenant: string): number {
    const name = nameTenant(pipeline, tenant);
    const set = this.#state.limits.get(nameLimit({ kind: "weight", scope: "tenant", name }));
    if (typeof set?.value === "number") return set.value;
    const newest = this.#listUnfinished(pipeline).findLast((batch) => batch.tenant === tenant);
    return newest?.submission.settings.weight ?? 1;
  }

  #listUnfinished(pipeline: string): Batch[] {
    return [...this.#state.batches.values()].filter(
      ({ submission, state }) => submission.pipeline === pipeline && !isEnded(state),
    );
  }

  /**
   * Removes tenants without work, once their tag is not ahead of the present. Not earlier: a tenant
   * that submits one batch after the other would start again with each, and gain by it.
   */
  tidy(pipeline: string): void {
    const unfinished = this.#listUnfinished(pipeline);
    const { virtual } = this.getClock(pipeline);
    const prefix = nameTenant(pipeline, "");
    for (const [name, { finish }] of this.#state.shares) {
      if (!name.startsWith(prefix)) continue;
      const busy = unfinished.some((batch) => nameTenant(pipeline, batch.tenant) === name);
      if (unfinished.length === 0 || (!busy && finish <= virtual)) this.#state.shares.delete(name);
    }
  }

  /** The reports of one commit, by step. */
  beginUses(): LeaseUsage {
    return new LeaseUsage(this.#state, this);
  }
}

/** The use of tenants' shares that the reports of one commit make. */
export class LeaseUsage {
  readonly #state: State;
  readonly #shares: FairShares;
  readonly #uses = new Map<Step, { readonly batch: Batch; readonly use: ShareUse }>();

  constructor(state: State, shares: FairShares) {
    this.#state = state;
    this.#shares = shares;
  }

  add(batch: Batch, step: Step, chunk: Chunk, said: LeaseUse & { readonly tried: number }): void {
    const name = nameTenant(batch.submission.pipeline, batch.tenant);
    const weight = this.#state.shares.get(name)?.weight ?? 1;
    const after = settleUse(chunk.account, said, weight);
    const entry = this.#uses.get(step) ?? { batch, use: createUse() };
    this.#uses.set(step, entry);
    addUse(entry.use, chunk.account, after, said.tried);
    chunk.account = after;
  }

  apply(): void {
    for (const { batch, use } of this.#uses.values()) {
      const { pipeline } = batch.submission;
      const share = this.#state.shares.get(nameTenant(pipeline, batch.tenant));
      if (share === undefined) continue;
      this.#shares.set(pipeline, batch.tenant, applyUse(share, use));
      const clock = this.#shares.getClock(pipeline);
      this.#shares.setClock(pipeline, { ...clock, itemMs: smoothItemMs(clock.itemMs, use) });
    }
  }
}
