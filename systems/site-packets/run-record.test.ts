/** A run is written completely or not at all, and found again with the same entries. */
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Entry } from "./entry.ts";
import { RunRecords } from "./run-record.ts";

const makeEntry = (site: string, number: number): Entry => ({
  site,
  document: `d-${number}`,
  type: "cv",
  schemaVersion: "v2.0",
  url: `/${number}.pdf`,
});

async function* list(entries: readonly Entry[]): AsyncGenerator<Entry> {
  yield* entries;
}

function readEntries(path: string): unknown[] {
  return readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
}

async function makeRoot(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-runs-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, "runs");
}

const some = [makeEntry("b", 1), makeEntry("a", 2), makeEntry("b", 3)];

test("a run has the entries of each site, in the order of the manifest", async () => {
  const records = new RunRecords(await makeRoot());
  const { run, resumed } = await records.begin(list(some));
  expect(resumed).toBe(false);
  expect(run).toMatchObject({
    entries: 3,
    endedAt: null,
    sites: [
      { site: "a", entries: 1 },
      { site: "b", entries: 2 },
    ],
  });
  expect(readEntries(records.placeSite(run.id, "b"))).toEqual([some[0], some[2]]);
  expect(await records.list()).toEqual([run]);
});

test("the same entries continue the run in progress, in any process", async () => {
  const root = await makeRoot();
  const { run } = await new RunRecords(root).begin(list(some));
  expect(await new RunRecords(root).begin(list(some))).toEqual({ run, resumed: true });
  expect((await readdir(root)).length).toBe(1);
});

test("other entries, or another order, begin a new run", async () => {
  const records = new RunRecords(await makeRoot());
  await records.begin(list(some));
  expect(await records.begin(list(some.slice(1)))).toMatchObject({ resumed: false });
  expect(await records.begin(list(some.toReversed()))).toMatchObject({ resumed: false });
  expect((await records.list()).length).toBe(3);
});

test("an ended run is not continued", async () => {
  const records = new RunRecords(await makeRoot());
  const { run } = await records.begin(list(some));
  await records.end(run);
  expect(await records.list()).toMatchObject([
    { id: run.id, endedAt: expect.any(String) as string },
  ]);
  const next = await records.begin(list(some));
  expect(next.resumed).toBe(false);
  expect(next.run.id).not.toBe(run.id);
});

test("runs are listed oldest first", async () => {
  const root = await makeRoot();
  for (const [name, startedAt] of [
    ["r-1", "2026-01-02"],
    ["r-2", "2026-01-01"],
  ] as const) {
    await mkdir(join(root, name), { recursive: true });
    await writeFile(join(root, name, "run.json"), JSON.stringify({ id: name, startedAt }));
  }
  expect((await new RunRecords(root).list()).map(({ id }) => id)).toEqual(["r-2", "r-1"]);
});

test("entries that cannot be read completely leave nothing", async () => {
  const root = await makeRoot();
  const broken = async function* (): AsyncGenerator<Entry> {
    yield* some;
    throw new Error("line 4 is bad");
  };
  await expect(new RunRecords(root).begin(broken())).rejects.toThrow("line 4 is bad");
  expect(await readdir(root)).toEqual([]);
});

test("a file that cannot be written is reported and leaves nothing", async () => {
  const root = await makeRoot();
  const odd = [makeEntry("a", 1), makeEntry("no/folder", 2)];
  await expect(new RunRecords(root).begin(list(odd))).rejects.toThrow("ENOENT");
  expect(await readdir(root)).toEqual([]);
});

test("entries that are written in several parts stay in their order", async () => {
  const records = new RunRecords(await makeRoot());
  const url = "x".repeat(2_000);
  const entries = Array.from({ length: 6_000 }, (_, at) => ({
    ...makeEntry(`s-${at % 3}`, at),
    url,
  }));
  const { run } = await records.begin(list(entries));
  expect(run.sites).toEqual(["s-0", "s-1", "s-2"].map((site) => ({ site, entries: 2_000 })));
  const read = readEntries(records.placeSite(run.id, "s-1"));
  expect(read).toEqual(entries.filter(({ site }) => site === "s-1"));
});

test("partial files of a crash, and other files, are not runs", async () => {
  const root = await makeRoot();
  await mkdir(join(root, "r-00000000.part"), { recursive: true });
  await writeFile(join(root, ".DS_Store"), "");
  expect(await new RunRecords(root).list()).toEqual([]);
  expect(await new RunRecords(join(root, "none")).list()).toEqual([]);
});

test.for(["", "{", null])("a record that is %j is reported with a hint", async (text) => {
  const root = await makeRoot();
  await mkdir(join(root, "r-1"), { recursive: true });
  if (text !== null) await writeFile(join(root, "r-1", "run.json"), text);
  await expect(new RunRecords(root).begin(list(some))).rejects.toMatchObject({
    code: "RUN_UNREADABLE",
    message: expect.stringContaining(join(root, "r-1")) as string,
    hint: expect.stringContaining("Delete this folder") as string,
  });
});
