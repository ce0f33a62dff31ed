/**
 * The store cannot be written for a while: by its permission bits for whoever comes then, and under
 * processes that have it open. They say so and end; when it can be written again the same command
 * goes on, and nothing that was reported is lost. A `run` that is refused before it has begun has
 * failed as any command does; a worker's supervisor, and whoever was at work, hear that it is fatal.
 */
import { chmodSync, chownSync, readdirSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { EXIT } from "../../src/cli/output/exit-codes.ts";
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
async function checkRefusal({ running, name }: Member, exitCode: number): Promise<void> {
  const { code, stdout, stderr } = await running.ended;
  expect(code, `${name}: ${stderr}`).toBe(exitCode);
  expect(stderr).toMatch(
    /^error STORE_READ_ONLY: the database .*kept\/store\.db cannot be written/m,
  );
  expect(stderr).toMatch(/^hint: Give this user the right to write the file and its folder/m);
  for (const { error } of readLines<Failure>(stdout)) expect(error.code).toBe("STORE_READ_ONLY");
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
  await checkRefusal(crew.start("run", { before }), EXIT.failed);
  await checkRefusal(crew.start("work", { before }), EXIT.fatal);
  setModes(0o644, 0o755);
  crew.start("run", { before });
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
});

test("a store that turns read-only under its processes is fatal to them, and goes on with whoever comes then", async (context) => {
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
    await checkRefusal(member, EXIT.fatal);
  }
  setFlag("-i");
  await crew.onlooker.look({ withResults: true });
  crew.start("run");
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
});
