/** All that a store holds, on its way to another one. */
export interface StoreDump {
  readonly tables: readonly TableDump[];
  close(): void;
}

export interface TableDump {
  readonly name: string;
  /** Rows by the names of their columns, a bounded number at a time. */
  readPages(): Iterable<readonly Record<string, unknown>[]>;
}
