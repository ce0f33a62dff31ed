/**
 * Writes files that are whole or absent: under another name, flushed to disk, then renamed. A process
 * that dies meanwhile leaves a partial file under the other name.
 */
import { randomUUID } from "node:crypto";
import { open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";

export async function placeFile(
  path: string,
  write: (part: string) => Promise<void>,
): Promise<void> {
  // Several processes may place the same file at once: each writes its own partial file.
  const part = `${path}.${randomUUID()}.part`;
  try {
    await write(part);
    await flush(part);
    await rename(part, path);
    await flush(dirname(path));
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** The bytes of a file, or the names of a folder. */
export async function flush(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

export async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
