/** Translates errors of SQLite into messages that name the file and the remedy. */
import { accessSync, constants } from "node:fs";
import { SluiceError } from "../../../core/base/errors.ts";

/** Primary result codes of SQLite; extended codes contain them in their low byte. */
const SQLITE = {
  busy: 5,
  locked: 6,
  readonly: 8,
  ioError: 10,
  noMemory: 7,
  interrupted: 9,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  range: 25,
  notADatabase: 26,
} as const;

/** SQLITE_CONSTRAINT_FOREIGNKEY. */
const FOREIGN_KEY = 19 | (3 << 8);

const STORES_FAULTS: readonly number[] = [
  SQLITE.busy,
  SQLITE.locked,
  SQLITE.noMemory,
  SQLITE.readonly,
  SQLITE.interrupted,
  SQLITE.ioError,
  SQLITE.corrupt,
  SQLITE.full,
  SQLITE.cannotOpen,
  SQLITE.notADatabase,
];

/** SQLITE_IOERR_SHMSIZE: no room for the shared-memory file. */
const NO_ROOM_TO_SHARE = SQLITE.ioError | (19 << 8);

export function readResultCode(error: unknown): number | null {
  if (!(error instanceof Error) || !("errcode" in error)) return null;
  if (error.errcode === NO_ROOM_TO_SHARE) return SQLITE.full;
  return typeof error.errcode === "number" ? error.errcode & 0xff : null;
}

/** Another process holds the lock: worth waiting for. */
export function isBusy(error: unknown): boolean {
  const code = readResultCode(error);
  return code === SQLITE.busy || code === SQLITE.locked;
}

/** The fault of the file, the disk or another process, and not of the statement. */
export function isStoresFault(error: unknown): boolean {
  const code = readResultCode(error);
  return isClosed(error) || STORES_FAULTS.some((one) => one === code);
}

/** The call has more values than the statement has placeholders. */
export function isValuesFault(error: unknown): boolean {
  return readResultCode(error) === SQLITE.range;
}

/** A reference to a missing row; for deferred keys, the COMMIT fails with it. */
export function isForeignKeyFault(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === FOREIGN_KEY;
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_INVALID_STATE";
}

const FORBIDDEN: readonly unknown[] = ["EACCES", "EPERM", "EROFS"];

/**
 * Whether the file, or its log, has become read-only. SQLite notices that when it opens them; later
 * it reports an I/O error, as for a broken disk.
 */
function isForbidden(path: string): boolean {
  return [path, `${path}-wal`].some((file) => {
    try {
      accessSync(file, constants.W_OK);
      return false;
    } catch (error) {
      return FORBIDDEN.includes((error as NodeJS.ErrnoException).code);
    }
  });
}

/** Turns an error of the driver into one that a person can act on; others pass through. */
export function translateError(error: unknown, path: string): unknown {
  const makeError = (code: string, message: string, hint: string, retryable = false): SluiceError =>
    new SluiceError(code, message, { hint, retryable, cause: error });
  const found = readResultCode(error);
  const code = found === SQLITE.ioError && isForbidden(path) ? SQLITE.readonly : found;
  switch (code) {
    case SQLITE.busy:
    case SQLITE.locked:
      return makeError(
        "STORE_BUSY",
        `the database ${path} is locked by another process`,
        "Wait until that process releases it, or find it with `fuser` or `lsof`. Nothing was lost.",
        true,
      );
    case SQLITE.readonly:
      return makeError(
        "STORE_READ_ONLY",
        `the database ${path} cannot be written`,
        "Give this user the right to write the file and its folder, or choose another --store.",
      );
    case SQLITE.full:
      return makeError(
        "STORE_FULL",
        `the disk that holds ${path} is full`,
        "Free some space and run the same command again: it continues where it stopped.",
        true,
      );
    case SQLITE.ioError:
      return makeError(
        "STORE_IO_ERROR",
        `reading or writing ${path} failed: ${(error as Error).message}`,
        "Check the disk and its free space, then run the same command again.",
      );
    case SQLITE.cannotOpen:
      return makeError(
        "STORE_UNREACHABLE",
        `the database ${path} cannot be opened`,
        "Check that its folder exists and that this user may write there, or choose another --store.",
      );
    case SQLITE.corrupt:
    case SQLITE.notADatabase:
      return makeError(
        "STORE_CORRUPT",
        `the file ${path} is not a SQLite database, or is damaged`,
        "Restore it from a backup (`sluice copy <file>` makes them), or choose another --store.",
      );
    default:
      return isClosed(error)
        ? makeError(
            "STOPPED",
            `the database ${path} has been closed`,
            "Do this before you close the engine.",
          )
        : error;
  }
}
