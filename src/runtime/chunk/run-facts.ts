/** What is the same for every item of a chunk. */
export interface RunFacts {
  readonly batch: string;
  readonly lane: string;
  readonly step: number;
  readonly fence: number;
  /** Scopes that may have a cap: its batch, its lane, its pipeline. */
  readonly scopes: readonly string[];
  /** Whether the store can run handlers' SQL statements. */
  readonly hasSql: boolean;
}
