/** What is the same for every item of a chunk. */
export interface RunFacts {
  readonly batch: string;
  readonly lane: string;
  readonly step: number;
  readonly fence: number;
  /** Where a cap may be: its batch, its lane, its pipeline. */
  readonly scopes: readonly string[];
  /** Whether there is a database to run statements of handlers in. */
  readonly hasSql: boolean;
}
