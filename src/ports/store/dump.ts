/** Everything that a store contains, on its way to another store. */
export interface StoreDump {
  readonly tables: readonly TableDump[];
  close(): void;
}

export interface TableDump {
  readonly name: string;
  /**
   * Rows as objects by column name; a page is bounded in rows and, unless it has only one row, in
   * size.
   */
  readPages(): Iterable<readonly Record<string, unknown>[]>;
}
