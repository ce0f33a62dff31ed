/**
 * How many handlers this process may run at once where a cap is shared by all workers: of a batch,
 * of a lane, of a pipeline. What the store permitted lasts as long as a lease, and is asked about
 * before each start.
 */
import { nameCapScope } from "../core/caps.ts";
import type { Permit } from "../ports/working.ts";
import type { ChunkRun } from "./chunk-run.ts";

interface Held {
  readonly slots: number;
  /** By this process's monotonic clock. */
  readonly until: number;
  readonly pipeline: string;
}

/** Somebody who runs handlers. */
export interface PermitUser {
  listRuns(): readonly ChunkRun[];
  /** Something may start that could not before. */
  onRoom(): void;
}

export class SlotPermits {
  readonly #held = new Map<string, Held>();
  /** Handlers that run, by scope; counted only while there is a cap somewhere. */
  readonly #active = new Map<string, number>();
  readonly #users = new Set<PermitUser>();

  join(user: PermitUser): () => void {
    this.#users.add(user);
    return () => void this.#users.delete(user);
  }

  /** Whether anything is capped: nobody pays for what there is not. */
  get areNeeded(): boolean {
    return this.#held.size > 0;
  }

  /**
   * What the store permits in scopes of a pipeline from now on, and nothing else there. `until` is
   * null where nothing was leased: then permits last as long as they did.
   */
  grant(permits: readonly Permit[], pipeline: string, until: number | null): void {
    if (permits.length === 0 && this.#held.size === 0) return;
    const wereNeeded = this.areNeeded;
    const named = new Set(permits.map(({ scope }) => scope));
    for (const [scope, held] of this.#held) {
      if (held.pipeline === pipeline && !named.has(scope)) this.#held.delete(scope);
    }
    for (const { scope, slots } of permits) {
      const lasts = until ?? this.#held.get(scope)?.until ?? 0;
      this.#held.set(scope, { slots, until: lasts, pipeline });
    }
    if (!wereNeeded) this.#recount();
    this.#tell();
  }

  /** After a renewal: all permits of this process. */
  renew(permits: readonly Permit[], until: number): void {
    if (permits.length === 0 && this.#held.size === 0) return;
    const wereNeeded = this.areNeeded;
    const slots = new Map(permits.map((one) => [one.scope, one.slots]));
    for (const [scope, held] of this.#held) {
      const now = slots.get(scope);
      if (now === undefined) this.#held.delete(scope);
      else this.#held.set(scope, { ...held, slots: now, until: Math.max(held.until, until) });
    }
    for (const { scope, slots: count } of permits) {
      if (!this.#held.has(scope)) this.#held.set(scope, { slots: count, until, pipeline: "" });
    }
    if (!wereNeeded) this.#recount();
    this.#tell();
  }

  mayStart(run: ChunkRun, now: number): boolean {
    return this.countRoom(run, now) > 0;
  }

  /** How many handlers of the run could start now. */
  countRoom({ facts }: ChunkRun, now: number): number {
    const rooms = facts.scopes.map((scope) => {
      const held = this.#held.get(scope);
      if (held === undefined) return Number.POSITIVE_INFINITY;
      return now < held.until ? held.slots - (this.#active.get(scope) ?? 0) : 0;
    });
    return Math.max(0, Math.min(Number.POSITIVE_INFINITY, ...rooms));
  }

  /** A handler of the run starts. */
  start({ facts }: ChunkRun): void {
    for (const scope of facts.scopes) this.#count(scope, 1);
  }

  end({ facts }: ChunkRun): void {
    const wasFull = facts.scopes.some(
      (scope) => (this.#active.get(scope) ?? 0) >= (this.#held.get(scope)?.slots ?? Infinity),
    );
    for (const scope of facts.scopes) this.#count(scope, -1);
    if (wasFull) this.#tell();
  }

  #count(scope: string, change: number): void {
    const active = (this.#active.get(scope) ?? 0) + change;
    if (active > 0) this.#active.set(scope, active);
    else this.#active.delete(scope);
  }

  /** What runs already counts from now on. */
  #recount(): void {
    this.#active.clear();
    for (const user of this.#users) {
      for (const { facts, inFlight } of user.listRuns()) {
        for (const scope of facts.scopes) if (inFlight > 0) this.#count(scope, inFlight);
      }
    }
  }

  /** What is needed of the scopes of a pipeline, where that is less than what is held. */
  listKeeps(pipeline: string, runs: readonly ChunkRun[], slots: number): Permit[] {
    const scopes = [...this.#held].filter(([, held]) => held.pipeline === pipeline);
    if (scopes.length === 0) return [];
    const needs = new Map<string, number>();
    for (const run of runs) {
      if (run.lost) continue;
      const items = run.inFlight + run.unstarted + run.waiting;
      for (const scope of run.facts.scopes) needs.set(scope, (needs.get(scope) ?? 0) + items);
    }
    return scopes.flatMap(([scope, held]) => {
      const needed = Math.min(slots, needs.get(scope) ?? 0);
      return needed < held.slots ? [{ scope, slots: needed }] : [];
    });
  }

  #tell(): void {
    for (const user of this.#users) user.onRoom();
  }
}

/** The scopes of a chunk's items, named once for all of them. */
export function nameScopes(batch: string, lane: string, pipeline: string): readonly string[] {
  return [
    nameCapScope("batch", batch),
    nameCapScope("lane", lane),
    nameCapScope("pipeline", pipeline),
  ];
}
