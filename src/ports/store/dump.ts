/** All that a store holds, on its way to another one. */
export interface StoreDump {
  readonly tables: readonly TableDump[];
  close(): void;
}

export interface TableDump {
  readonly name: string;
  /** Rows by the names of their columns; a page is bounded in number and, but for one row, in size. */
  readPages(): Iterable<readonly Record<string, unknown>[]>;
}
