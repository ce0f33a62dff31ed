/**
 * The files of a folder as items, in plain string order of their paths.
 *
 * It is a stream: the engine freezes it into manifests. Memory is bounded however many files there
 * are: at most `NAMES_MAX` names of a directory are held, and a larger directory is listed again
 * for the next ones. Symbolic links are neither items nor followed, and the real path of every
 * directory is checked, so the walk cannot leave the folder.
 */
import type { Dirent, Stats } from "node:fs";
import { lstat, opendir, realpath, stat } from "node:fs/promises";
import { join, posix } from "node:path";
import { SluiceError } from "../core/base/errors.ts";
import { checkOptionNames, checkPath } from "./files/option-checks.ts";
import { describeFileError } from "./files/source-file.ts";

export interface FolderOptions {
  /**
   * Which files, by their path within the folder: a pattern, or a glob such as `**\/*.pdf`. As in a
   * shell, a glob's `*` does not match a leading dot.
   */
  readonly match?: RegExp | string;
  /** True: also files and folders whose name begins with a dot. */
  readonly hidden?: boolean;
}

export interface FolderItem {
  /** Within the folder, with `/` between its parts on every system. */
  readonly path: string;
  readonly absolutePath: string;
  readonly bytes: number;
  /** Wall-clock milliseconds. */
  readonly modifiedAt: number;
}

const KIND = "folder";
/** Names of one directory held at once. */
const NAMES_MAX = 100_000;
/** Files that are read at once: enough to keep the system's threads busy. */
const STATS_AT_ONCE = 32;

/**
 * Every file in a folder and the folders in it.
 *
 * ```ts
 * const source = folder("scans", { match: "**\/*.pdf" });
 * ```
 */
export function folder(path: string, options: FolderOptions = {}): AsyncIterable<FolderItem> {
  checkOptionNames(KIND, options, ["match", "hidden"]);
  checkPath(KIND, path);
  const matches = makeMatcher(options.match);
  const hidden = options.hidden ?? false;
  return { [Symbol.asyncIterator]: () => walk(path, matches, hidden, NAMES_MAX) };
}

type Matcher = (path: string) => boolean;

function makeMatcher(match: RegExp | string | undefined): Matcher {
  if (match === undefined) return () => true;
  if (match instanceof RegExp) {
    // The flags g and y would make it remember the last path.
    const pattern = new RegExp(match.source, match.flags.replace(/[gy]/g, ""));
    return (path) => pattern.test(path);
  }
  if (typeof match === "string" && match !== "") return (path) => posix.matchesGlob(path, match);
  throw new SluiceError("BAD_OPTION", "folder(): match is neither a pattern nor a glob", {
    field: "match",
    hint: "Give a RegExp such as /\\.pdf$/i or a glob such as **/*.pdf, or leave it out.",
  });
}

/**
 * A file's name, or a directory's with `/` after it: sorted like this, whole paths are in order.
 */
type Name = string;

/** A directory during the walk. */
interface Frame {
  /** Its path within the folder: empty, or with `/` at its end. */
  readonly path: string;
  listing: Listing;
  /** The next of the listed names. */
  next: number;
}

interface Listing {
  readonly names: readonly Name[];
  /** False: more names follow after the last of these. */
  readonly complete: boolean;
}

/** Exported for its tests, which hold few names at a time. */
export async function* walk(
  path: string,
  matches: Matcher,
  hidden: boolean,
  namesMax: number,
): AsyncGenerator<FolderItem> {
  const root = await findRoot(path);
  const list = (within: string, after: Name | null): Promise<Listing> =>
    listNames(root, within, after, hidden, namesMax);
  // A loop rather than recursion: each level of generators would add to the cost of every item.
  const frames: Frame[] = [{ path: "", listing: await list("", null), next: 0 }];
  for (let frame = frames.at(-1); frame !== undefined; frame = frames.at(-1)) {
    const { names, complete } = frame.listing;
    const name = names[frame.next];
    if (name === undefined) {
      if (complete) frames.pop();
      else frame.listing = await list(frame.path, names.at(-1) ?? null);
      frame.next = 0;
    } else if (name.endsWith("/")) {
      frame.next++;
      const within = frame.path + name;
      frames.push({ path: within, listing: await list(within, null), next: 0 });
    } else {
      const files = takeFiles(frame);
      const paths = files.map((file) => frame.path + file).filter(matches);
      for (const item of await Promise.all(paths.map((file) => describeFile(root, file)))) {
        if (item !== null) yield item;
      }
    }
  }
}

/** The next few files, up to a directory. */
function takeFiles(frame: Frame): readonly Name[] {
  const { names } = frame.listing;
  const files: Name[] = [];
  for (; files.length < STATS_AT_ONCE; frame.next++) {
    const name = names[frame.next];
    if (name === undefined || name.endsWith("/")) break;
    files.push(name);
  }
  return files;
}

/** The folder itself may be a link; its content may not. */
async function findRoot(path: string): Promise<string> {
  try {
    const root = await realpath(path);
    if ((await stat(root)).isDirectory()) return root;
  } catch (cause) {
    throw describeFileError(path, cause);
  }
  throw new SluiceError("SOURCE_UNREADABLE", `${path} is a file, not a folder`, {
    hint: "Name the folder that it is in, and pick it with match; or use jsonl() or csv().",
  });
}

/** The first `namesMax` names of a directory after a given one, sorted. */
async function listNames(
  root: string,
  within: string,
  after: Name | null,
  hidden: boolean,
  namesMax: number,
): Promise<Listing> {
  const path = join(root, within);
  let names: Name[] = [];
  let complete = true;
  const keepFirst = (): void => {
    names.sort();
    if (names.length <= namesMax) return;
    names = names.slice(0, namesMax);
    complete = false;
  };
  try {
    // A link that has replaced the directory since it was listed leads elsewhere: it is not
    // followed.
    if (join(await realpath(path)) !== join(path, ".")) return { names, complete };
    for await (const entry of await opendir(path, { bufferSize: 1024 })) {
      const name = nameOf(entry);
      if (name === null || (after !== null && name <= after)) continue;
      if (!hidden && name.startsWith(".")) continue;
      names.push(name);
      if (names.length >= 2 * namesMax) keepFirst();
    }
  } catch (cause) {
    if (!isGone(cause)) throw describeFileError(path, cause);
    refuseUnreadableName(path);
    // It was removed during the walk.
    return { names: [], complete: true };
  }
  keepFirst();
  return { names, complete };
}

/** Null for anything else: links, pipes, sockets, devices. */
function nameOf(entry: Dirent): Name | null {
  if (entry.isFile()) return entry.name;
  return entry.isDirectory() ? `${entry.name}/` : null;
}

/** Null when the file was removed, or replaced by something else, since it was listed. */
async function describeFile(root: string, path: string): Promise<FolderItem | null> {
  const absolutePath = join(root, path);
  let stats: Stats;
  try {
    stats = await lstat(absolutePath);
  } catch (cause) {
    if (!isGone(cause)) throw describeFileError(absolutePath, cause);
    refuseUnreadableName(absolutePath);
    return null;
  }
  if (!stats.isFile()) return null;
  return { path, absolutePath, bytes: stats.size, modifiedAt: Math.floor(stats.mtimeMs) };
}

function isGone(cause: unknown): boolean {
  const code = (cause as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

/** A name that is not UTF-8 cannot be opened by its text, so the file only seems to be gone. */
function refuseUnreadableName(path: string): void {
  if (!path.includes("\ufffd")) return;
  throw new SluiceError("SOURCE_UNREADABLE", `the name of ${path} is not UTF-8`, {
    hint: "Rename it, for example with: convmv -f latin1 -t utf8.",
  });
}
