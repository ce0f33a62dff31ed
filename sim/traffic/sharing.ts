/**
 * Caps, tenants and weights of a pipeline: as its definition declares them, and as checkers read
 * them.
 */
import { CAP_SCOPES, type CapScope } from "../../src/core/limits/caps.ts";
import type { SharingPlot } from "./errand.ts";

/** The pipeline's definition. */
export function describeSharing(sharing: SharingPlot): object {
  const { caps, weights } = sharing;
  return { caps, share: { weights, tenant: (lane: string) => readTenant(sharing, lane) } };
}

export function readTenant({ tenants }: SharingPlot, lane: string): string {
  return tenants[lane] ?? lane;
}

/** Scopes in which a batch may be capped. */
export interface ScopeName {
  readonly kind: CapScope;
  /** As `kind/name`. */
  readonly name: string;
}

export function listScopes(batch: {
  readonly id: string;
  readonly lane: string;
  readonly pipeline: string;
}): readonly ScopeName[] {
  const names = { batch: batch.id, lane: batch.lane, pipeline: batch.pipeline };
  return CAP_SCOPES.map((kind) => ({ kind, name: `${kind}/${names[kind]}` }));
}
