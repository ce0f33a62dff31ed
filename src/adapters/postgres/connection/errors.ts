/**
 * Translates errors of PostgreSQL and of the network into messages that name the server and the
 * remedy.
 */
import { describeError, SluiceError } from "../../../core/base/errors.ts";
import type { CommitFault } from "../../../core/items/item-commit.ts";
import { LockTaken } from "../../sql/dialect/transaction.ts";

/** SQLSTATE codes; two characters stand for a whole class. */
const SQLSTATE = {
  serializationFailure: "40001",
  deadlock: "40P01",
  lockNotAvailable: "55P03",
  uniqueViolation: "23505",
  readOnly: "25006",
  idleInTransaction: "25P03",
  tooManyConnections: "53300",
  diskFull: "53100",
  insufficientResources: "53",
  invalidPassword: "28",
  noSuchDatabase: "3D000",
  privilege: "42501",
  undefinedTable: "42P01",
  undefinedColumn: "42703",
  connection: "08",
  operatorIntervention: "57",
  queryCanceled: "57014",
  noSuchStatement: "26000",
  duplicateStatement: "42P05",
} as const;

/** Conflicts; a server that is not the primary, has no room left, or shuts down. */
const STORES_FAULTS: readonly string[] = ["25", "40", "53", "57", "58"];
const MESSAGE_CHARS_MAX = 2_000;

/** Codes of sockets and name lookup when the server is unreachable. */
const NETWORK = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "ENOENT",
]);

export function readCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : "";
}

/** Two transactions conflicted at the same rows, and neither is to blame: a retry will work. */
export function isContention(error: unknown): boolean {
  const code = readCode(error);
  return (
    error instanceof LockTaken ||
    code === SQLSTATE.serializationFailure ||
    code === SQLSTATE.deadlock ||
    code === SQLSTATE.lockNotAvailable ||
    code === SQLSTATE.uniqueViolation
  );
}

/**
 * A prepared statement does not exist, or already exists: a pooler between this process and the
 * server gives every transaction another connection, and does not know of statements.
 */
export function isPoolersFault(error: unknown): boolean {
  const code = readCode(error);
  return code === SQLSTATE.noSuchStatement || code === SQLSTATE.duplicateStatement;
}

/** The connection is unusable, whatever the fault was. */
export function isBroken(error: unknown): boolean {
  const code = readCode(error);
  return (
    NETWORK.has(code) ||
    code.startsWith(SQLSTATE.connection) ||
    code.startsWith(SQLSTATE.operatorIntervention) ||
    code === SQLSTATE.idleInTransaction ||
    code === SQLSTATE.readOnly ||
    code === SQLSTATE.tooManyConnections ||
    (error instanceof Error && !("severity" in error) && isDriverFault(error.message))
  );
}

/**
 * An error of a user's statement, or of what it met: the transaction can continue from a savepoint.
 * The statement may wait too long, for a lock or for itself: that must not block everything else.
 */
export function isItemsFault(error: unknown): boolean {
  if (!(error instanceof Error) || !("severity" in error) || error.severity !== "ERROR")
    return false;
  const code = readCode(error);
  return code === SQLSTATE.queryCanceled || !STORES_FAULTS.some((one) => code.startsWith(one));
}

/** In the words of the server, which name the table and the constraint. */
export function describeItemFault(error: unknown): CommitFault {
  const isPermanent = describeError(error).errorClass === "permanent";
  const message = error instanceof Error ? error.message : String(error);
  const detail = error instanceof Error && "detail" in error ? error.detail : undefined;
  const text = typeof detail === "string" ? `${message}: ${detail}` : message;
  return {
    errorClass: isPermanent ? "permanent" : "transient",
    message: text.slice(0, MESSAGE_CHARS_MAX).toWellFormed(),
  };
}

/** The driver has no codes for these. */
function isDriverFault(message: string): boolean {
  return /^(Connection terminated|Query read timeout|timeout|Client has encountered|Client was closed|Cannot use a pool|Connection ended|The server does not support SSL|write after end)/i.test(
    message,
  );
}

/**
 * Only the message distinguishes these errors. Retrying does not help: a server without a
 * certificate does not get one.
 */
function isUntrusted(message: string): boolean {
  return /certificate|self[- ]signed|does not support SSL/i.test(message);
}

type MakeError = (code: string, message: string, hint: string, retryable?: boolean) => SluiceError;

/** What a server refuses with its own SQLSTATE; null for other errors. */
function translateRefusal(
  code: string,
  makeError: MakeError,
  name: string,
  detail: string,
): SluiceError | null {
  switch (code) {
    case SQLSTATE.readOnly:
      return makeError(
        "STORE_READ_ONLY",
        `the server ${name} is read-only; it may be a standby`,
        "Point the store at the primary. After a failover workers continue as soon as the server's name resolves to the new primary.",
        true,
      );
    case SQLSTATE.diskFull:
      return makeError(
        "STORE_FULL",
        `the disk of the server ${name} is full`,
        "Free some space on the server; running work then continues.",
        true,
      );
    case SQLSTATE.noSuchDatabase:
      return makeError(
        "STORE_UNREACHABLE",
        `there is no such database at ${name}`,
        "Create it (CREATE DATABASE), or correct the name at the end of the store's address.",
      );
    case SQLSTATE.privilege:
      return makeError(
        "STORE_FORBIDDEN",
        `the server ${name} denies permission: ${detail}`,
        "Give the role the rights that docs/operating/postgres.md lists, or run `sluice migrate` as a role that has them.",
      );
    case SQLSTATE.undefinedTable:
    case SQLSTATE.undefinedColumn:
      return makeError(
        "STORE_MISSING",
        `the schema at ${name} is missing or has another version: ${detail}`,
        "Run `sluice migrate` against it, or correct the schema in the store's address.",
      );
    default:
      return null;
  }
}

/**
 * Turns an error of the driver or the server into one that a person can act on; others pass
 * through.
 */
export function translateError(error: unknown, name: string): unknown {
  const makeError: MakeError = (code, message, hint, retryable = false) =>
    new SluiceError(code, message, { hint, retryable, cause: error });
  const code = readCode(error);
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof SluiceError) return error;
  if (isContention(error)) {
    return makeError(
      "STORE_BUSY",
      `too many transactions conflicted in the database ${name}: ${detail}`,
      "Try again. Nothing was lost.",
      true,
    );
  }
  const refused = translateRefusal(code, makeError, name, detail);
  if (refused !== null) return refused;
  if (code.startsWith(SQLSTATE.invalidPassword)) {
    return makeError(
      "STORE_FORBIDDEN",
      `the server ${name} rejects this user: ${detail}`,
      "Correct the user and the password in the store's address, or PGPASSWORD, or ~/.pgpass.",
    );
  }
  if (isUntrusted(detail) || (!isBroken(error) && /SSL/i.test(detail))) {
    return makeError(
      "STORE_UNTRUSTED",
      `the TLS certificate of the server ${name} could not be verified: ${detail}`,
      "Give the certificate of its authority (CA) with sslrootcert=<file> in the store's address. Use sslmode=no-verify or sslmode=disable only on a network that you trust.",
    );
  }
  if (isBroken(error) || code.startsWith(SQLSTATE.insufficientResources)) {
    return makeError(
      "STORE_UNREACHABLE",
      `the server ${name} cannot be reached: ${detail}`,
      "Check that it runs, its address and port, and its max_connections. Workers reconnect when it is back.",
      true,
    );
  }
  return error;
}
