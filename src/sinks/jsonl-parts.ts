/**
 * The files of a topic in a folder: one part that grows, and those that are finished. A part is
 * called by the position of its first message, so whoever goes on with it after a crash knows all
 * that there is to know. A finished file is never touched again.
 */
import { type FileHandle, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";

const PART_ENDING = ".jsonl.part";
const NEWLINE = 0x0a;
/** How much is looked at at once when a torn line is searched for its beginning. */
const LOOK_BYTES = 65_536;
/** Files of one topic that begin with the same message: it was replayed as often. */
const SAME_NAME_MAX = 100_000;

export interface Part {
  readonly path: string;
  /** The position of its first message. */
  readonly first: number;
  /** In bytes, when it was looked at. */
  readonly size: number;
}

/** The parts of a topic, the one that grows last: there are several only if somebody copied some. */
export async function listParts(folder: string, topic: string): Promise<Part[]> {
  await makeFolder(folder);
  const parts: Part[] = [];
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${topic}-`) || !name.endsWith(PART_ENDING)) continue;
    const first = name.slice(topic.length + 1, -PART_ENDING.length);
    if (!/^\d+$/.test(first)) continue;
    const path = join(folder, name);
    parts.push({ path, first: Number(first), size: (await stat(path)).size });
  }
  return parts.toSorted((a, b) => a.first - b.first);
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    // On a read-only disk Node says that something is missing: the plain call says what is wrong.
    await mkdir(path);
  }
}

export function namePart(folder: string, topic: string, first: number): Part {
  return { path: join(folder, `${topic}-${first}${PART_ENDING}`), first, size: 0 };
}

/**
 * Appends whole lines to a part, on disk when it resolves; answers its size. A torn line that a
 * crash has left is cut off first: its message comes again. If it fails, what it wrote is taken
 * back as far as that can be.
 */
export async function appendLines(folder: string, { path }: Part, lines: string): Promise<number> {
  const file = await open(path, "a+");
  try {
    const size = await cutTornLine(file);
    const bytes = Buffer.from(lines);
    try {
      await writeWhole(file, bytes);
      await file.sync();
    } catch (error) {
      await file.truncate(size).catch(() => undefined);
      throw error;
    }
    if (size === 0) await syncFolder(folder);
    return size + bytes.length;
  } finally {
    await file.close();
  }
}

/** In one call if the system takes it: a process that lost its turn may be writing its last. */
async function writeWhole(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at)).bytesWritten;
  }
}

/** The size of the file once it ends with a whole line. */
async function cutTornLine(file: FileHandle): Promise<number> {
  const { size } = await file.stat();
  const end = await findLastLineEnd(file, size);
  if (end < size) await file.truncate(end);
  return end;
}

async function findLastLineEnd(file: FileHandle, size: number): Promise<number> {
  const buffer = Buffer.alloc(Math.min(LOOK_BYTES, size));
  for (let end = size; end > 0; ) {
    const bytes = Math.min(buffer.length, end);
    const { bytesRead } = await file.read(buffer, 0, bytes, end - bytes);
    const at = buffer.subarray(0, bytesRead).lastIndexOf(NEWLINE);
    if (at !== -1) return end - bytes + at + 1;
    end -= bytes;
  }
  return 0;
}

/** Gives a part its final name, at once or not at all. One without a whole line goes. */
export async function finishPart(folder: string, topic: string, part: Part): Promise<void> {
  const file = await open(part.path, "r+");
  let size: number;
  try {
    size = await cutTornLine(file);
    await file.sync();
  } finally {
    await file.close();
  }
  if (size === 0) await unlink(part.path);
  else await rename(part.path, await findFreeName(folder, `${topic}-${part.first}`));
  await syncFolder(folder);
}

/** After a replay there may be one that begins with the same message: that stays as it is. */
async function findFreeName(folder: string, stem: string): Promise<string> {
  for (let nth = 1; nth < SAME_NAME_MAX; nth++) {
    const path = join(folder, nth === 1 ? `${stem}.jsonl` : `${stem}.${nth}.jsonl`);
    if (!(await exists(path))) return path;
  }
  throw new Error(`there are more than ${SAME_NAME_MAX} files ${stem}.jsonl in ${folder}`);
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** A new name is on disk when its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
