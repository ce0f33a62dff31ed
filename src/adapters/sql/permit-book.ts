/**
 * The permits of one worker while one transaction changes them: reads rows, decides, and says at
 * the end which rows to write. What others hold is read by the store, in its own way.
 */
import {
  type CappedScope,
  type Caps,
  type CapScope,
  computeRoom,
  listCappedScopes,
  nameCapScope,
  raiseSlots,
  renewSlots,
} from "../../core/limits/caps.ts";
import type { LeaseRequest, Permits } from "../../ports/store/worker-store.ts";

/** The columns that a batch's caps depend on. */
export interface CappedRow {
  readonly id: string;
  readonly lane: string;
  readonly pipeline: string;
  /** JSON, or NULL. */
  readonly caps: string | null;
}

export interface PermitRow {
  readonly scope: string;
  readonly worker: number;
  readonly pipeline: string;
  readonly slots: number;
  readonly declared: number | null;
  readonly until: number;
}

const NONE: readonly never[] = [];

export const PERMIT_COLUMNS = "scope, worker, pipeline, slots, declared, until";

export interface OperatorCaps {
  /** Usually no operator has set a cap. */
  readonly areSet: boolean;
  readonly find: (scope: CapScope, name: string) => number | null;
}

/** What a store knows while the book is open. */
export interface PermitFacts {
  readonly worker: number;
  readonly now: number;
  /** 0 for a worker that the store does not know. */
  readonly seq: number;
  readonly own: readonly PermitRow[];
  readonly operators: OperatorCaps;
  /** Live slots of the other workers in a scope. */
  readonly countOthers: (scope: string) => number;
  readonly holdsLease: (scope: string) => boolean;
}

export interface PermitChanges {
  readonly put: readonly PermitRow[];
  /** Scopes. */
  readonly drop: readonly string[];
}

export class PermitBook {
  readonly #facts: PermitFacts;
  readonly #before: ReadonlyMap<string, PermitRow>;
  readonly #own: Map<string, PermitRow>;

  constructor(facts: PermitFacts) {
    this.#facts = facts;
    this.#before = new Map(facts.own.map((row) => [row.scope, row]));
    this.#own = new Map(this.#before);
  }

  get worker(): number {
    return this.#facts.worker;
  }

  #room(scope: string, cap: number): number {
    return computeRoom(cap, this.#facts.countOthers(scope));
  }

  /** Whether the worker has, or could get, a slot in every capped scope of the batch. */
  allows(batch: CappedRow): boolean {
    return listScopes(batch, this.#facts.operators).every(
      ({ scope, cap }) => this.#room(scope, cap) > 0,
    );
  }

  /** The batch is leased from: the worker gets the free slots, up to what it asked for. */
  take(batch: CappedRow, { slots, leaseMs }: LeaseRequest): void {
    const { worker, now, operators } = this.#facts;
    const { pipeline } = batch;
    for (const { scope, cap, declared } of listScopes(batch, operators)) {
      const known = this.#own.get(scope);
      const own = known === undefined ? 0 : readSlots(known, now);
      const raised = raiseSlots(own, Math.max(1, slots), this.#room(scope, cap));
      this.#save({ scope, worker, pipeline, slots: raised, declared, until: now + leaseMs });
    }
  }

  #save(row: PermitRow): void {
    this.#own.set(row.scope, row);
  }

  /** Applies what the worker says that it needs. */
  keep({ keeps }: LeaseRequest): void {
    for (const kept of keeps) {
      const row = this.#own.get(kept.scope);
      if (row === undefined) continue;
      const cap = this.#findCap(row);
      if (cap === null) this.#own.delete(row.scope);
      else {
        const room = this.#room(row.scope, cap);
        this.#save({ ...row, slots: Math.min(Math.max(0, Math.floor(kept.slots)), room) });
      }
    }
  }

  #findCap({ scope, declared }: PermitRow): number | null {
    const { kind, name } = readScope(scope);
    return this.#facts.operators.find(kind, name) ?? declared;
  }

  /** Frees slots that the worker neither needs nor has leases for. */
  free(request: LeaseRequest): void {
    for (const row of this.#list()) {
      if (this.#isFree(row, request)) this.#own.delete(row.scope);
    }
  }

  /** A copy: entries that are added during the loop are not visited. */
  #list(): PermitRow[] {
    return [...this.#own.values()];
  }

  #isFree({ scope, pipeline }: PermitRow, request: LeaseRequest): boolean {
    if (pipeline !== request.pipeline) return false;
    if (request.keeps.some((kept) => kept.scope === scope && kept.slots > 0)) return false;
    return !this.#facts.holdsLease(scope);
  }

  /** They last as long as the leases that were granted with them. */
  prolong({ pipeline, leaseMs }: LeaseRequest): void {
    const { now } = this.#facts;
    for (const row of this.#list()) {
      if (row.pipeline !== pipeline) continue;
      this.#save({ ...row, slots: readSlots(row, now), until: now + leaseMs });
    }
  }

  /** `batches`: those of which the worker has leases. */
  renew(batches: readonly CappedRow[], until: number): void {
    const { worker, now, operators } = this.#facts;
    for (const batch of batches) {
      for (const { scope, declared } of listScopes(batch, operators)) {
        if (this.#own.has(scope)) continue;
        const { pipeline } = batch;
        this.#save({ scope, worker, pipeline, slots: 0, declared, until: 0 });
      }
    }
    for (const row of this.#list()) {
      const cap = this.#findCap(row);
      if (cap === null) this.#own.delete(row.scope);
      else {
        const room = this.#room(row.scope, cap);
        this.#save({ ...row, slots: renewSlots(readSlots(row, now), room), until });
      }
    }
  }

  listChanges(): PermitChanges {
    return {
      put: this.#list().filter((row) => !isSame(this.#before.get(row.scope), row)),
      drop: [...this.#before.keys()].filter((scope) => !this.#own.has(scope)),
    };
  }

  /** Whether the number of slots in a scope changes; a permit that only lasts longer does not count. */
  hasMoved(): boolean {
    const { put, drop } = this.listChanges();
    return drop.length > 0 || put.some((row) => row.slots !== this.#readBefore(row.scope));
  }

  /** Whether another worker may get slots that this one had. */
  hasFreed(): boolean {
    const { put, drop } = this.listChanges();
    return (
      drop.length > 0 || put.some(({ scope, slots }) => slots < (this.#readBefore(scope) ?? 0))
    );
  }

  #readBefore(scope: string): number | null {
    const row = this.#before.get(scope);
    return row === undefined ? null : readSlots(row, this.#facts.now);
  }

  /** The permits with the changes. */
  describe(): Permits {
    const { put, drop } = this.listChanges();
    const { seq, now } = this.#facts;
    const isChanged = put.length > 0 || drop.length > 0;
    return describePermits(isChanged && seq > 0 ? seq + 1 : seq, this.#list(), now);
  }
}

function isSame(before: PermitRow | undefined, row: PermitRow): boolean {
  return (
    before !== undefined &&
    before.slots === row.slots &&
    before.until === row.until &&
    before.pipeline === row.pipeline &&
    before.declared === row.declared
  );
}

export function listScopes(batch: CappedRow, operators: OperatorCaps): readonly CappedScope[] {
  if (batch.caps === null && !operators.areSet) return NONE;
  const caps = batch.caps === null ? {} : (JSON.parse(batch.caps) as Caps);
  return listCappedScopes(batch, caps, operators.find);
}

export function describePermits(seq: number, rows: readonly PermitRow[], now: number): Permits {
  if (rows.length === 0) return { seq, held: NONE };
  const sorted = rows.toSorted((a, b) => (a.scope < b.scope ? -1 : 1));
  return {
    seq,
    held: sorted.map((row) => ({
      scope: row.scope,
      slots: readSlots(row, now),
      pipeline: row.pipeline,
      forMs: Math.max(0, row.until - now),
    })),
  };
}

/** An expired permit counts as 0. */
export function readSlots({ slots, until }: PermitRow, now: number): number {
  return until > now ? slots : 0;
}

export function readScope(scope: string): { readonly kind: CapScope; readonly name: string } {
  const at = scope.indexOf("/");
  return { kind: scope.slice(0, at) as CapScope, name: scope.slice(at + 1) };
}

/** Whether a batch is in the scope. */
export function isInScope({ id, lane, pipeline }: CappedRow, scope: string): boolean {
  return (
    scope === nameCapScope("batch", id) ||
    scope === nameCapScope("lane", lane) ||
    scope === nameCapScope("pipeline", pipeline)
  );
}
