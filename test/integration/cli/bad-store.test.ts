/** A store that cannot be used is reported with its file and a hint, and nothing is lost. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
  work.writePipeline();
  work.writeItems(10);
});
afterEach(() => work.remove());

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

test("a file that is not a database is reported with exit 1 and not changed", async () => {
  const text = "these are not the bytes you are looking for\n".repeat(100);
  work.write("other.db", text);
  const { code, stderr } = await work.run(...RUN, "--store", "other.db");
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^error STORE_CORRUPT: the file .*other\.db is not a SQLite database, or is damaged$/m,
  );
  expect(stderr).toMatch(/^hint: Restore it from a backup/m);
  expect(work.read("other.db")).toBe(text);
});

test("another program's database is refused", async () => {
  const make = `const { DatabaseSync } = require("node:sqlite");
    new DatabaseSync("other.db").exec("CREATE TABLE theirs (a)");`;
  await work.startProgram(process.execPath, ["-e", make]).ended;
  const { code, stderr } = await work.run(...RUN, "--store", "other.db");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error STORE_FOREIGN: /);
});

test("a database with damaged pages is reported by the run and by the doctor", async () => {
  work.writeItems(5_000);
  await work.run(...RUN);
  const damage = `const fs = require("node:fs");
    const file = ".sluice/sluice.db";
    const { DatabaseSync } = require("node:sqlite");
    const db = new DatabaseSync(file);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    db.close();
    const bytes = fs.readFileSync(file);
    bytes.fill(0xaa, 4096, bytes.length);
    fs.writeFileSync(file, bytes);`;
  expect(await work.startProgram(process.execPath, ["-e", damage]).ended).toMatchObject({
    code: 0,
  });
  const { code, stderr } = await work.run(...RUN);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error STORE_CORRUPT: /m);
  const doctor = await work.run("doctor");
  expect(doctor.code).toBe(1);
  expect(doctor.stdout).toMatch(/^bad /m);
});

test("a database that another process has locked is reported after the busy timeout, with exit 1", async () => {
  await work.run(...RUN);
  const hold = `const { DatabaseSync } = require("node:sqlite");
    const db = new DatabaseSync(".sluice/sluice.db");
    db.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    console.log("HELD");
    setInterval(() => {}, 1000);`;
  const holder = work.startProgram(process.execPath, ["-e", hold]);
  await holder.waitFor(/HELD/);
  const { code, stderr } = await work.start(RUN, { env: { SLUICE_BUSY_MS: "200" } }).ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^error STORE_BUSY: the database .*sluice\.db is locked by another process$/m,
  );
  expect(stderr).toContain("Nothing was lost.");
  holder.signal("SIGKILL");
  await holder.ended;
  expect(await work.run(...RUN)).toMatchObject({ code: 0 });
});

test("a store path that cannot be created is reported with exit 1", async () => {
  work.write("plain-file", "");
  for (const store of ["plain-file/sluice.db", "plain-file/folder/sluice.db", "."]) {
    const { code, stderr } = await work.run(...RUN, "--store", store);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error STORE_UNREACHABLE: /m);
    expect(stderr).toMatch(/^hint: .*--store/m);
  }
});
