/** Concurrency permits of workers in capped scopes, on the reference model. */
import {
  type CapScope,
  type CappedScope,
  computeRoom,
  listCappedScopes,
  nameCapScope,
  raiseSlots,
  renewSlots,
} from "../../core/limits/caps.ts";
import type { CapFacts } from "../../core/batch/why.ts";
import type { LeaseRequest, Permit, Permits } from "../../ports/store/worker-store.ts";
import { type Batch, namePermit, nameLimit, type PermitRow, type State } from "./state.ts";

export class ConcurrencyPermits {
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  listScopes({ submission }: Batch): CappedScope[] {
    return listCappedScopes(submission, submission.settings.caps ?? {}, (scope, name) =>
      this.#findOperators(scope, name),
    );
  }

  #findOperators(scope: CapScope, name: string): number | null {
    const set = this.#state.limits.get(nameLimit({ kind: "cap", scope, name }));
    return typeof set?.value === "number" ? set.value : null;
  }

  /** Whether the worker has, or could get, a slot in every capped scope of the batch. */
  allows(batch: Batch, worker: number, now: number): boolean {
    return this.listScopes(batch).every(
      ({ scope, cap }) => this.#room(scope, cap, worker, now) > 0,
    );
  }

  /** The narrowest cap of a batch that is reached. */
  findFull(batch: Batch, now: number): CapFacts | null {
    for (const { scope, cap } of this.listScopes(batch)) {
      const used = this.#count(scope, null, now);
      if (used >= cap) return { scope, cap, used };
    }
    return null;
  }

  #room(scope: string, cap: number, worker: number, now: number): number {
    return computeRoom(cap, this.#count(scope, worker, now));
  }

  /** Live slots of all workers except one. */
  #count(scope: string, but: number | null, now: number): number {
    return [...this.#state.permits.values()]
      .filter((one) => one.scope === scope && one.worker !== but)
      .reduce((sum, one) => sum + readSlots(one, now), 0);
  }

  /** The batch is leased from: the worker gets the free slots, up to what it asked for. */
  take(batch: Batch, { worker, slots, leaseMs }: LeaseRequest, now: number): void {
    const { pipeline } = batch.submission;
    for (const { scope, cap, declared } of this.listScopes(batch)) {
      const known = this.#state.permits.get(namePermit(scope, worker));
      const own = known === undefined ? 0 : readSlots(known, now);
      const room = this.#room(scope, cap, worker, now);
      const raised = raiseSlots(own, Math.max(1, slots), room);
      this.#put({ scope, worker, pipeline, slots: raised, declared, until: now + leaseMs });
    }
  }

  #put(row: PermitRow): void {
    this.#state.permits.set(namePermit(row.scope, row.worker), row);
  }

  #listOf(worker: number): PermitRow[] {
    return [...this.#state.permits.values()]
      .filter((one) => one.worker === worker)
      .toSorted((a, b) => (a.scope < b.scope ? -1 : 1));
  }

  /** Applies what the worker says that it needs; true when other workers may have more now. */
  keep({ worker, keeps }: LeaseRequest, now: number): boolean {
    let freed = false;
    for (const { scope, slots } of keeps) {
      const row = this.#state.permits.get(namePermit(scope, worker));
      if (row === undefined) continue;
      const own = readSlots(row, now);
      const cap = this.#findCap(row);
      const room = cap === null ? 0 : this.#room(scope, cap, worker, now);
      const kept = Math.min(Math.max(0, Math.floor(slots)), room);
      if (kept < own) freed = true;
      if (cap === null) this.#state.permits.delete(namePermit(scope, worker));
      else this.#put({ ...row, slots: kept });
    }
    return freed;
  }

  /** Frees slots that the worker neither needs nor has leases for; true when it freed any. */
  free({ worker, pipeline, keeps }: LeaseRequest): boolean {
    const kept = new Set(keeps.filter(({ slots }) => slots > 0).map(({ scope }) => scope));
    let freed = false;
    for (const row of this.#listOf(worker)) {
      if (row.pipeline !== pipeline || kept.has(row.scope)) continue;
      if (this.#holdsLease(worker, row.scope)) continue;
      this.#state.permits.delete(namePermit(row.scope, worker));
      freed = true;
    }
    return freed;
  }

  #holdsLease(worker: number, scope: string): boolean {
    return [...this.#state.batches.values()].some(
      (batch) =>
        listScopeNames(batch).includes(scope) &&
        batch.steps.some(({ chunks }) =>
          chunks.some((chunk) => chunk.state === "leased" && chunk.worker === worker),
        ),
    );
  }

  /** They last as long as the leases that were granted with them. */
  prolong({ worker, pipeline, leaseMs }: LeaseRequest, now: number): void {
    for (const row of this.#listOf(worker)) {
      if (row.pipeline !== pipeline) continue;
      this.#put({ ...row, slots: readSlots(row, now), until: now + leaseMs });
    }
  }

  list(worker: number, now: number): Permits {
    const { permitChanges, lastWorker } = this.#state;
    return {
      seq: worker > lastWorker ? 0 : 1 + (permitChanges.get(worker) ?? 0),
      held: this.#listOf(worker).map((row) => ({
        scope: row.scope,
        slots: readSlots(row, now),
        pipeline: row.pipeline,
        forMs: Math.max(0, row.until - Math.floor(now)),
      })),
    };
  }

  /** Runs a request of a worker, and counts it if it changes the worker's permits. */
  change<T>(worker: number, act: () => T): T {
    const before = JSON.stringify(this.#listOf(worker));
    const result = act();
    const { permitChanges } = this.#state;
    if (JSON.stringify(this.#listOf(worker)) !== before) {
      permitChanges.set(worker, (permitChanges.get(worker) ?? 0) + 1);
    }
    return result;
  }

  /** `batches`: those of which the worker has leases. */
  renew(worker: number, batches: readonly Batch[], until: number, now: number): void {
    const rows = new Map(this.#listOf(worker).map((row) => [row.scope, row]));
    for (const batch of batches) {
      const { pipeline } = batch.submission;
      for (const { scope, declared } of this.listScopes(batch)) {
        if (rows.has(scope)) continue;
        rows.set(scope, { scope, worker, pipeline, slots: 0, declared, until: 0 });
      }
    }
    for (const row of rows.values()) {
      const cap = this.#findCap(row);
      if (cap === null) {
        this.#state.permits.delete(namePermit(row.scope, worker));
        continue;
      }
      const room = this.#room(row.scope, cap, worker, now);
      this.#put({ ...row, slots: renewSlots(readSlots(row, now), room), until });
    }
  }

  #findCap({ scope, declared }: PermitRow): number | null {
    const at = scope.indexOf("/");
    const kind = scope.slice(0, at) as CapScope;
    return this.#findOperators(kind, scope.slice(at + 1)) ?? declared;
  }

  /** Removes expired permits. */
  sweep(now: number): void {
    for (const [name, { until }] of this.#state.permits) {
      if (until <= now) this.#state.permits.delete(name);
    }
  }

  /** Nothing of the scope runs any more, or it is no longer capped. */
  forget(scope: string, onlyUndeclared = false): void {
    for (const [name, row] of this.#state.permits) {
      if (row.scope !== scope || (onlyUndeclared && row.declared !== null)) continue;
      this.#state.permits.delete(name);
    }
  }

  /** Live slots by scope. */
  listUse(now: number): Permit[] {
    const scopes = new Set([...this.#state.permits.values()].map(({ scope }) => scope));
    return [...scopes]
      .toSorted()
      .map((scope) => ({ scope, slots: this.#count(scope, null, now) }))
      .filter(({ slots }) => slots > 0);
  }
}

/** An expired permit counts as 0. */
function readSlots({ slots, until }: PermitRow, now: number): number {
  return until > now ? slots : 0;
}

function listScopeNames({ submission: { id, lane, pipeline } }: Batch): string[] {
  return [
    nameCapScope("batch", id),
    nameCapScope("lane", lane),
    nameCapScope("pipeline", pipeline),
  ];
}
