/** What the engine has to say to its operator. Where it goes is the caller's choice. */
import type { Redact } from "../../core/base/redact.ts";
import { redactError } from "./redact-error.ts";

export interface LogEntry {
  readonly level: "debug" | "info" | "warn" | "error";
  /** A stable name, for example `item.unexpected_error`. */
  readonly event: string;
  readonly message: string;
  readonly error?: unknown;
  /** What it is about, as far as that is known: the same names everywhere, to search by. */
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

/** What machines search for and people see by other means: the command shows these in JSON logs only. */
export const EVENTS_FOR_MACHINES: ReadonlySet<string> = new Set([
  "batch.ended",
  "chunk.lost",
  "item.gave_up",
]);

/** A log whose entries say what they are about, where they do not say so themselves. */
export function addFacts(log: Log, facts: Omit<LogEntry, "level" | "event" | "message">): Log {
  return (entry) => log({ ...facts, ...entry });
}

export const silentLog: Log = () => undefined;

/**
 * A log that holds no secrets, and whose failure does not fail what it tells of: there is nobody left
 * to tell of that.
 */
export function guardLog(log: Log, redact: Redact): Log {
  return (entry) => {
    try {
      const { message, error } = entry;
      const safe = { ...entry, message: redact(message) };
      log(error === undefined ? safe : { ...safe, error: redactError(error, redact) });
    } catch {
      // Nothing can be said about it here.
    }
  };
}
