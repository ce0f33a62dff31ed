/** What the engine has to say to its operator. Where it goes is the caller's choice. */
export interface LogEntry {
  readonly level: "debug" | "info" | "warn" | "error";
  /** A stable name, for example `item.unexpected_error`. */
  readonly event: string;
  readonly message: string;
  readonly error?: unknown;
}

export type Log = (entry: LogEntry) => void;

export const silentLog: Log = () => undefined;
