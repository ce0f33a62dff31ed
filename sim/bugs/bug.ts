/**
 * A deliberate bug: a few lines of source that are replaced when their module is loaded, in a
 * separate process. The shipped code does not know of bugs, and this module loads none of it.
 */

import type { WorldStore } from "../play-seed.ts";

/** A world of the simulator by its store, or a PostgreSQL server (sim/interleaved). */
export type HuntedOn = WorldStore | "postgres";

/** One place in one file. */
export interface Edit {
  /** From the root of the repository. */
  readonly file: string;
  /** Occurs in the file exactly once. */
  readonly before: string;
  readonly after: string;
}

export interface Bug extends Edit {
  readonly name: string;
  /** What goes wrong. */
  readonly what: string;
  /** Issues of other projects with the same bug. */
  readonly peers?: readonly string[];
  /** Further places: other code covers some mistakes, so they do harm only together. */
  readonly also?: readonly Edit[];
  /** Where it shows, unless `pickWorld` says so by its files. */
  readonly world?: HuntedOn;
  /** Needs many seeds: it is hunted on demand, not with every change. */
  readonly rare?: true;
}

/**
 * The store of the world in which the bug is hunted. What is not in the SQLite adapter is hunted on
 * the reference model alone: beside another store, each of its own bugs would show as a difference.
 */
export function pickWorld(bug: Bug): HuntedOn {
  if (bug.world !== undefined) return bug.world;
  if (listEdits(bug).some(({ file }) => file.startsWith("src/adapters/postgres/"))) {
    return "postgres";
  }
  const isOfSqlite = listEdits(bug).some(({ file }) => /^src\/adapters\/sql(ite)?\//u.test(file));
  return isOfSqlite ? "sqlite" : "memory";
}

export function listEdits({ file, before, after, also = [] }: Bug): readonly Edit[] {
  return [{ file, before, after }, ...also];
}

/** A file's text with the bug in it. */
export function patchText(bug: Bug, file: string, text: string): string {
  return listEdits(bug)
    .filter((edit) => edit.file === file)
    .reduce((patched, { before, after }) => {
      const pieces = patched.split(before);
      if (pieces.length === 2) return pieces.join(after);
      const times = pieces.length - 1;
      throw new Error(
        `the bug ${bug.name} does not fit ${file}: this occurs ${times} times, not once:\n${before}`,
      );
    }, text);
}
