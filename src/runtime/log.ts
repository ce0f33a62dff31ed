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

/** A log that fails must not fail what it tells of, and there is nobody left to tell. */
export function guardLog(log: Log): Log {
  return (entry) => {
    try {
      log(entry);
    } catch {
      // Nothing can be said about it here.
    }
  };
}
