/**
 * A file on disk as a source sees it: opened with an error that gives the remedy, refused when it
 * is not a plain text file, and kept open between reads, because a worker reads it thousands of
 * times.
 *
 * All reads under way share one open file. `close` waits for the last of them; a later read opens
 * the file again. After a failed read the open file is not used again, so that a retry sees the
 * current file.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { SluiceError } from "../../core/base/errors.ts";

/** Failures of the system, not of the file: the same call may succeed later. */
const RETRYABLE_CODES: ReadonlySet<string> = new Set([
  "EAGAIN",
  "EBUSY",
  "EINTR",
  "EIO",
  "EMFILE",
  "ENFILE",
  "ENOMEM",
  "ESTALE",
  "ETIMEDOUT",
]);

interface Opening {
  readonly handle: Promise<FileHandle>;
  users: number;
  /** No new user may join; the last user closes the file. */
  retired: boolean;
  readonly closed: PromiseWithResolvers<void>;
}

export class SourceFile {
  /** Absolute, so that a later change of directory has no effect. */
  readonly path: string;
  #opening: Opening | null = null;

  constructor(path: string) {
    this.path = resolve(path);
  }

  /** Calls `act` with the open file. */
  async use<Result>(act: (handle: FileHandle) => Promise<Result>): Promise<Result> {
    const opening = (this.#opening ??= {
      handle: openSourceFile(this.path),
      users: 0,
      retired: false,
      closed: Promise.withResolvers<void>(),
    });
    opening.users++;
    try {
      return await act(await opening.handle);
    } catch (error) {
      this.#retire(opening);
      throw error;
    } finally {
      opening.users--;
      await closeWhenUnused(opening);
    }
  }

  /** Resolves when the reads under way have ended and the file is closed. */
  async close(): Promise<void> {
    const opening = this.#opening;
    if (opening === null) return;
    this.#retire(opening);
    await closeWhenUnused(opening);
    await opening.closed.promise;
  }

  #retire(opening: Opening): void {
    opening.retired = true;
    if (this.#opening === opening) this.#opening = null;
  }
}

async function closeWhenUnused(opening: Opening): Promise<void> {
  if (!opening.retired || opening.users > 0) return;
  // A failed open has nothing to close, and its user has got the error.
  const handle = await opening.handle.catch(() => null);
  await handle?.close();
  opening.closed.resolve();
}

/** Opens a plain file for reading, or explains why it cannot be a source. */
export async function openSourceFile(path: string): Promise<FileHandle> {
  let handle: FileHandle;
  try {
    // Without O_NONBLOCK, opening a FIFO would wait for its writer, perhaps for ever.
    handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (cause) {
    throw describeFileError(path, cause);
  }
  try {
    const stats = await handle.stat();
    if (stats.isFile()) return handle;
    throw new SluiceError(
      "SOURCE_UNREADABLE",
      `${path} is ${stats.isDirectory() ? "a folder" : "a pipe or a device"}, not a file`,
      {
        hint: stats.isDirectory()
          ? "Name one file in it, or use folder() to make each of its files an item."
          : "It can be read only once. Save it as a file first, or pass an async iterable.",
      },
    );
  } catch (cause) {
    await handle.close();
    throw describeFileError(path, cause);
  }
}

/** A system error as the `SluiceError` that names the file and the remedy. */
export function describeFileError(path: string, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const code = readCode(cause);
  switch (code) {
    case "ENOENT":
    case "ENOTDIR":
      return new SluiceError("SOURCE_MISSING", `${path} does not exist`, {
        hint: isAbsolute(path)
          ? "Check the path."
          : `Check the path. It is relative to ${process.cwd()}; an absolute path is the same for every worker.`,
        cause,
      });
    case "EACCES":
    case "EPERM":
      return new SluiceError("SOURCE_UNREADABLE", `this process may not read ${path}`, {
        hint: "Give the user that runs Sluice the right to read it, and to enter its folders.",
        cause,
      });
    default:
      return new SluiceError("SOURCE_UNREADABLE", `${path} cannot be read: ${code}`, {
        hint: "See the cause for the system's error.",
        retryable: RETRYABLE_CODES.has(code),
        cause,
      });
  }
}

function readCode(cause: unknown): string {
  if (typeof cause === "object" && cause !== null && "code" in cause) return String(cause.code);
  return String(cause);
}

/** Fills `target` from the file as far as it goes; returns the number of bytes. */
export async function readFully(
  path: string,
  handle: FileHandle,
  target: Buffer,
  at: number,
): Promise<number> {
  let filled = 0;
  while (filled < target.length) {
    const { bytesRead } = await handle
      .read(target, filled, target.length - filled, at + filled)
      .catch((cause: unknown) => {
        throw describeFileError(path, cause);
      });
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}
