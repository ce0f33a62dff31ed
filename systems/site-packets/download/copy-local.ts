/**
 * Copies one document of a site's folder to a file, with the same bounds as a download. The people who
 * fill the folder must not be able to read other files this way. So it copies only regular files that
 * lie in the folder once all symbolic links are resolved. A hard link is a regular file; it cannot be
 * detected.
 */
import { constants } from "node:fs";
import { type FileHandle, lstat, open, realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { PermanentError, TransientError } from "sluice";
import { makeTooLargeError } from "./download-errors.ts";
import { makeRefusalError } from "./refusal.ts";
import { writeBounded } from "./write-bounded.ts";

export interface CopiedDocument {
  readonly bytes: number;
}

export interface CopyOptions {
  readonly bytesMax: number;
  readonly signal: AbortSignal;
}

const PIECE_BYTES = 65_536;
const SHOWN_CHARS_MAX = 300;
const FAILED = { code: "DOWNLOAD_FAILED" } as const;

/** `path`: within `root`, or absolute. On any failure nothing is left at `target`. */
export async function copyLocal(
  path: string,
  root: string,
  target: string,
  { bytesMax, signal }: CopyOptions,
): Promise<CopiedDocument> {
  signal.throwIfAborted();
  const place = describePath(path);
  const file = await openWithin(path, root, place);
  try {
    const before = await file.stat({ bigint: true });
    if (before.size > BigInt(bytesMax)) {
      throw makeTooLargeError(place, bytesMax, Number(before.size));
    }
    // While a file is being written, its end is the writer's current position.
    const checkSame = async (bytes: number): Promise<void> => {
      const after = await file.stat({ bigint: true });
      if (BigInt(bytes) === before.size && after.mtimeNs === before.mtimeNs) return;
      throw new TransientError(`${place}: it changed while it was copied`, FAILED);
    };
    const makeTooLarge = (): Error => makeTooLargeError(place, bytesMax, null);
    const pieces = readPieces(file, signal, checkSame);
    return { bytes: await writeBounded(pieces, target, { bytesMax, makeTooLarge }) };
  } finally {
    await file.close();
  }
}

async function* readPieces(
  file: FileHandle,
  signal: AbortSignal,
  checkEnd: (bytes: number) => Promise<void>,
): AsyncGenerator<Uint8Array, void> {
  // One buffer for all pieces, because the next is read after the last was written.
  const buffer = new Uint8Array(PIECE_BYTES);
  let bytes = 0;
  // The consumer of the pieces enforces the limit.
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, PIECE_BYTES, null);
    if (bytesRead === 0) return checkEnd(bytes);
    bytes += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function openWithin(path: string, root: string, place: string): Promise<FileHandle> {
  if (path.includes("\0")) throw refusePath(place, "holds a NUL");
  const realRoot = await resolveRoot(root);
  const real = await onSource(place, () => realpath(resolve(realRoot, path)));
  if (!isBelow(real, realRoot)) throw refusePath(place, "leads out of the site's folder");
  const seen = await onSource(place, () => lstat(real, { bigint: true }));
  // Before it is opened: opening a device or a pipe may already have an effect.
  if (!seen.isFile()) throw refusePath(place, "is not a regular file");
  // If it has become a pipe, this does not wait for its writer; if a link, it is not followed.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await onSource(place, () => open(real, flags));
  try {
    const opened = await file.stat({ bigint: true });
    const isSame = opened.isFile() && opened.ino === seen.ino && opened.dev === seen.dev;
    // Checked again, in case a folder above it was replaced by a link in between.
    const now = await onSource(place, () => realpath(real));
    if (!isSame || now !== real) throw refusePath(place, "was exchanged while it was opened");
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** A missing folder says nothing about its documents: a share may not be mounted at the moment. */
async function resolveRoot(root: string): Promise<string> {
  try {
    return await realpath(root);
  } catch (cause) {
    if (readCode(cause) !== "ENOENT") throw cause;
    throw new TransientError(`the site's folder ${root} does not exist; check that it is mounted`, {
      ...FAILED,
      cause,
    });
  }
}

/**
 * Errors of the document's own path. All other errors come from the disk and are thrown unchanged.
 */
async function onSource<Value>(place: string, act: () => Promise<Value>): Promise<Value> {
  try {
    return await act();
  } catch (cause) {
    switch (readCode(cause)) {
      case "ENOENT":
      case "ENOTDIR":
      case "ENAMETOOLONG":
        throw new PermanentError(`${place}: there is no such file`, { ...FAILED, cause });
      case "ELOOP":
        throw refusePath(place, "leads in a circle of links, or became one");
      default:
        throw cause;
    }
  }
}

function isBelow(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

function refusePath(place: string, what: string): PermanentError {
  return makeRefusalError({
    code: "FORBIDDEN_PATH",
    why: `${place} ${what}`,
    remedy: "only regular files within the site's folder are read: put a copy there",
  });
}

/** Quoted, because a name may contain anything. */
function describePath(path: string): string {
  const quoted = JSON.stringify(path);
  return quoted.length <= SHOWN_CHARS_MAX ? quoted : `${quoted.slice(0, SHOWN_CHARS_MAX - 1)}…`;
}

function readCode(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | null)?.code;
}
