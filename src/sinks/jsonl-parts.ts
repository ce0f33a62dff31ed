/**
 * The files of a topic in a folder: one part that grows, and finished files. A part is named by the
 * position of its first message, so a process that continues it after a crash needs no other
 * information. A finished file is never changed.
 */
import { type FileHandle, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";

const PART_ENDING = ".jsonl.part";
const NEWLINE = 0x0a;
/** How much is read at once to find the beginning of a cut line. */
const LOOK_BYTES = 65_536;
/** Files of one topic that begin with the same message: one for each replay. */
const SAME_NAME_MAX = 100_000;

export interface Part {
  readonly path: string;
  /** The position of its first message. */
  readonly first: number;
  /** In bytes, when it was read. */
  readonly size: number;
}

/** The parts of a topic, the growing one last: there are several only if files were copied. */
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
    // On a read-only disk Node's recursive mkdir reports a missing folder; the plain call reports
    // the real problem.
    await mkdir(path);
  }
}

export function namePart(folder: string, topic: string, first: number): Part {
  return { path: join(folder, `${topic}-${first}${PART_ENDING}`), first, size: 0 };
}

/**
 * Appends whole lines to a part, on disk when it resolves; returns its size. First removes a line
 * that a crash has cut: its message is delivered again. After a failure it removes what it wrote,
 * if possible.
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

/**
 * In one call if the system accepts it: another process that lost its claim may still be writing.
 */
async function writeWhole(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at)).bytesWritten;
  }
}

/** The size of the file after removing a cut line at its end. */
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

/** Gives a part its final name, atomically. A part without a whole line is deleted. */
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

/** After a replay there may be a file that begins with the same message: it stays unchanged. */
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

/** A new name is on disk only after its folder is synced. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
