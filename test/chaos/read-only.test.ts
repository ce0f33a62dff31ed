/**
 * The store cannot be written for a while: by its permission bits for whoever comes then, and under
 * processes that have it open. They say so and end; when it can be written again the same command
 * goes on, and nothing that was reported is lost.
 */
import { chmodSync, chownSync, readdirSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { readLines } from "../support/command-line.ts";
import { trySystemProgram } from "../support/system-program.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, type Member } from "./crew.ts";

const ITEMS = 2_000;
const NOBODY = 65_534;
const FOLDER = "kept";

let crew: Crew;
afterEach(() => crew.dispose());

interface Failure {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string };
}

function listFiles(): string[] {
  return readdirSync(crew.work.at(FOLDER)).map((name) => crew.work.at(`${FOLDER}/${name}`));
}

/** It ended by itself, with an error that names the file and what to do. */
async function readFailure({ running, name }: Member): Promise<string> {
  const { code, stdout, stderr } = await running.ended;
  expect(code, `${name}: ${stderr}`).toBe(70);
  expect(stderr).toContain(`${FOLDER}/store.db`);
  expect(stderr).toContain("hint:");
  const [failure] = readLines<Failure>(stdout);
  return failure?.error.code ?? /^error ([A-Z_]+):/m.exec(stderr)?.[1] ?? stderr;
}

test("a store without the right to write it is refused with the file's name, and goes on once it is given back", async () => {
  crew = new Crew({ items: ITEMS, workMs: 4, mixed: true, store: `${FOLDER}/store.db` });
  // Permission bits do not bind root: the processes are somebody who owns the folder and nothing else.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(crew.work.path, NOBODY, NOBODY);
  const ids = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  const before = isRoot ? ["setpriv", ...ids] : [];
  const first = crew.start("run", { before });
  await crew.onlooker.waitForLines(ITEMS);
  await crew.kill(first);
  await crew.onlooker.look({ withResults: true });
  const setModes = (file: number, folder: number): void => {
    for (const path of listFiles()) chmodSync(path, file);
    chmodSync(crew.work.at(FOLDER), folder);
  };
  setModes(0o444, 0o555);
  const refused = [crew.start("run", { before }), crew.start("work", { before })];
  for (const member of refused) expect(await readFailure(member)).toBe("STORE_READ_ONLY");
  setModes(0o644, 0o755);
  crew.start("run", { before });
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
});

test("a store that turns read-only under its processes stops them, and goes on with whoever comes then", async (context) => {
  crew = new Crew({ items: ITEMS, workMs: 4, mixed: true, store: `${FOLDER}/store.db` });
  const members = [crew.start("run"), crew.start("work")];
  await crew.onlooker.waitForLines(ITEMS);
  // Files that are open for writing cannot be written either. But for SQLite's shared memory: it is
  // mapped, and to forbid that is to kill the process.
  const files = listFiles().filter((path) => !path.endsWith("-shm"));
  const setFlag = (flag: "+i" | "-i"): string | null => trySystemProgram("chattr", flag, ...files);
  crew.onDispose(() => setFlag("-i"));
  const problem = setFlag("+i");
  if (problem !== null) return context.skip(`no file can be made immutable here: ${problem}`);
  for (const member of members) {
    crew.disturbed.add(member.name);
    expect(await readFailure(member)).toBe("STORE_IO_ERROR");
  }
  setFlag("-i");
  await crew.onlooker.look({ withResults: true });
  crew.start("run");
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
});
