/**
 * The store cannot be written for a while: by permission bits for new processes, and under
 * processes that have it open. They report it and exit. When it is writable again the same command
 * continues, and no reported outcome is lost. A `run` that is refused before it has begun fails
 * like any command; a worker's supervisor and running processes get a fatal error.
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

/** It exited with an error that names the file and the fix. */
async function checkRefusal({ running, name }: Member, exitCode: number): Promise<void> {
  const { code, stdout, stderr } = await running.ended;
  expect(code, `${name}: ${stderr}`).toBe(exitCode);
  expect(stderr).toMatch(
    /^error STORE_READ_ONLY: the database .*kept\/store\.db cannot be written/m,
  );
  expect(stderr).toMatch(/^hint: Give this user the right to write the file and its folder/m);
  for (const { error } of readLines<Failure>(stdout)) expect(error.code).toBe("STORE_READ_ONLY");
}

test("a store without write permission is refused with the name of its file, and continues when permission is back", async () => {
  crew = new Crew({ items: ITEMS, workMs: 4, mixed: true, store: `${FOLDER}/store.db` });
  // Permission bits do not apply to root: the processes run as a user who owns only the folder.
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

test("a store that becomes read-only is fatal to its processes, and later processes continue", async (context) => {
  crew = new Crew({ items: ITEMS, workMs: 4, mixed: true, store: `${FOLDER}/store.db` });
  const members = [crew.start("run"), crew.start("work")];
  await crew.onlooker.waitForLines(ITEMS);
  // Files that are already open cannot be written either. An exception is SQLite's shared memory:
  // it is mapped, and refusing that kills the process.
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
