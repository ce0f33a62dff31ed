/** A drill: something that must hold in earnest, played through with real parts, and what was seen. */
export interface DrillReport {
  /** What was seen, for people. */
  readonly seen: readonly string[];
  /** What should have been otherwise; none when it holds. */
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
