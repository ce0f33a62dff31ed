/** A drill: a promise that is tested with real parts, and the observations. */
export interface DrillReport {
  /** The observations, for people. */
  readonly seen: readonly string[];
  /** The violations; empty when the promise holds. */
  readonly faults: readonly string[];
}

export interface DrillSize {
  readonly sites: number;
  readonly documents: number;
  readonly seed: number;
}

/** The first few of a list that may be long. */
export function listSome(what: string, all: readonly string[], most = 5): string[] {
  const more = all.length > most ? [`${what}: and ${all.length - most} more`] : [];
  return [...all.slice(0, most).map((one) => `${what}: ${one}`), ...more];
}
