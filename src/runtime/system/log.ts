/** The engine's log for its operator. The caller chooses where it goes. */
import type { Redact } from "../../core/base/redact.ts";
import { redactError } from "./redact-error.ts";

export interface LogEntry {
  readonly level: "debug" | "info" | "warn" | "error";
  /** A stable name, for example `item.unexpected_error`. */
  readonly event: string;
  readonly message: string;
  readonly error?: unknown;
  /** What the entry is about, as far as known: the same names everywhere, to search by. */
  readonly pipeline?: string;
  readonly batch?: string;
  readonly step?: string;
  /** The chunk's number in its step. */
  readonly chunk?: number;
  /** The item's number in its step. */
  readonly item?: number;
  /** The worker's number in the store. */
  readonly worker?: number;
}

export type Log = (entry: LogEntry) => void;

/**
 * Entries for machines that people see by other means: the command shows these only in JSON logs.
 */
export const EVENTS_FOR_MACHINES: ReadonlySet<string> = new Set([
  "batch.ended",
  "chunk.lost",
  "item.gave_up",
]);

/** Adds facts to entries that do not have them. */
export function addFacts(log: Log, facts: Omit<LogEntry, "level" | "event" | "message">): Log {
  return (entry) => log({ ...facts, ...entry });
}

export const silentLog: Log = () => undefined;

/**
 * A log without secrets, whose failure does not fail its caller: there is no further place to
 * report it.
 */
export function guardLog(log: Log, redact: Redact): Log {
  return (entry) => {
    try {
      const { message, error } = entry;
      const safe = { ...entry, message: redact(message) };
      log(error === undefined ? safe : { ...safe, error: redactError(error, redact) });
    } catch {
      // It cannot be reported here.
    }
  };
}
