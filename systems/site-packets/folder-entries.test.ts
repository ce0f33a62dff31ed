/** The PDFs of a folder are entries, always in the same order. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listFolder } from "./folder-entries.ts";

async function makeFolder(...files: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-folder-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const file of files) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), "");
  }
  return folder;
}

async function collect<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const all: Value[] = [];
  for await (const value of values) all.push(value);
  return all;
}

async function list(folder: string, skipped = ""): Promise<string[]> {
  const entries = await collect(listFolder(folder, "local", skipped));
  return entries.map(({ document }) => document);
}

test("files whose names end in .pdf are found in all folders, in the order of their names", async () => {
  const folder = await makeFolder("b.pdf", "a/z.PDF", "a/b/c.pdf", "c.pdf.txt", "10.pdf", "pdf");
  expect(await list(folder)).toEqual(["10.pdf", "a/b/c.pdf", "a/z.PDF", "b.pdf"]);
});

test("an entry has the path of its file and the type other", async () => {
  const folder = await makeFolder("a b/ü.pdf");
  expect(await collect(listFolder(folder, "local", ""))).toEqual([
    {
      site: "local",
      document: "a b/ü.pdf",
      url: "a b/ü.pdf",
      type: "other",
      schemaVersion: "v2.0",
    },
  ]);
});

test("a folder with the name of a PDF is searched, and a link to a folder is not", async () => {
  const folder = await makeFolder("x.pdf/y.pdf");
  await symlink(folder, join(folder, "round"));
  expect(await list(folder)).toEqual(["x.pdf/y.pdf"]);
});

test("the archive folder is left out", async () => {
  const folder = await makeFolder(
    "a.pdf",
    ".sluice/site-packets/archive/00/1.pdf",
    ".sluice/b.pdf",
  );
  expect(await list(folder, join(folder, ".sluice/site-packets"))).toEqual([
    ".sluice/b.pdf",
    "a.pdf",
  ]);
});

test("a folder without a PDF is reported", async () => {
  const folder = await makeFolder("a.txt");
  await expect(list(folder)).rejects.toMatchObject({
    code: "NO_DOCUMENTS",
    message: expect.stringContaining(folder) as string,
    hint: expect.stringContaining(".pdf") as string,
  });
});

test("a name that cannot be a document's is reported with the file, in escaped form", async () => {
  const folder = await makeFolder("a\u001B[2J.pdf");
  await expect(list(folder)).rejects.toMatchObject({
    code: "BAD_NAME",
    message: expect.stringContaining('"a\\u001b[2J.pdf" cannot be used') as string,
  });
});

test("an unreadable folder is reported", async () => {
  await expect(list("/nowhere")).rejects.toMatchObject({
    code: "BAD_FOLDER",
    message: expect.stringContaining("/nowhere cannot be read: ENOENT") as string,
  });
});
