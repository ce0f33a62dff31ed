/**
 * Caps on how many handler calls run at once over all workers. A worker holds a permit for some of
 * a scope's slots, within what the other workers leave free.
 */

export const CAP_SCOPES = ["batch", "lane", "pipeline"] as const;
export type CapScope = (typeof CAP_SCOPES)[number];

/** What a batch declares; a scope that is absent has no cap. */
export type Caps = { readonly [Scope in CapScope]?: number };

export const CAP_MAX = 1_000_000;

/** The name of a scope in permits. */
export function nameCapScope(scope: CapScope, name: string): string {
  return `${scope}/${name}`;
}

/** A scope in which a batch is capped. */
export interface CappedScope {
  readonly scope: string;
  readonly cap: number;
  /** The cap that the batch declares; null where only an operator set one. */
  readonly declared: number | null;
}

/**
 * The scopes in which a batch is capped, the narrowest first; an operator's cap replaces the
 * declared one.
 */
export function listCappedScopes(
  batch: { readonly id: string; readonly lane: string; readonly pipeline: string },
  caps: Caps,
  findOperators: (scope: CapScope, name: string) => number | null,
): CappedScope[] {
  const names = { batch: batch.id, lane: batch.lane, pipeline: batch.pipeline };
  return CAP_SCOPES.flatMap((scope): CappedScope[] => {
    const declared = caps[scope] ?? null;
    const cap = findOperators(scope, names[scope]) ?? declared;
    return cap === null ? [] : [{ scope: nameCapScope(scope, names[scope]), cap, declared }];
  });
}

/** How many slots of a scope a worker may have, next to those of the other workers. */
export function computeRoom(cap: number, others: number): number {
  return Math.max(0, cap - others);
}

/** A worker's slots after it asked for more: never above the room, and never fewer than before. */
export function raiseSlots(own: number, wanted: number, room: number): number {
  return Math.max(Math.min(own, room), Math.min(wanted, room));
}

/**
 * A worker's slots after a renewal: lowered if the cap was; a worker without slots takes free ones.
 */
export function renewSlots(own: number, room: number): number {
  return own === 0 ? room : Math.min(own, room);
}
