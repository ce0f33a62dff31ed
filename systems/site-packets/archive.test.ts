/** The same content is archived once, whole, and never changes afterwards. */
import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { hash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Archive, type ArchivedDocument } from "./archive.ts";

const sha256 = hash("sha256", "content");

const describeDocument = (more: Partial<ArchivedDocument> = {}): ArchivedDocument => ({
  site: "a",
  document: "d-1",
  type: "cv",
  schemaVersion: "v2.0",
  url: "/1.pdf",
  sha256,
  bytes: 7,
  pages: 1,
  characters: 4,
  textFrom: "pdf",
  batch: "b-1",
  archivedAt: "2026-01-01T00:00:00.000Z",
  ...more,
});

interface Desk {
  readonly root: string;
  readonly archive: Archive;
  readonly content: string;
  readonly text: string;
}

async function makeDesk(): Promise<Desk> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-archive-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [content, text] = [join(folder, "0.bin"), join(folder, "0.bin.txt")];
  await writeFile(content, "content");
  await writeFile(text, "text");
  const root = join(folder, "archive");
  return { root, archive: new Archive(root), content, text };
}

const listAll = async (root: string): Promise<string[]> =>
  (await readdir(join(root, sha256.slice(0, 2)))).toSorted();

test("a document is archived with its content, its text and its description", async () => {
  const { archive, content, text } = await makeDesk();
  const found = describeDocument();
  await archive.add(found, content, text);
  expect(await readFile(archive.placeContent(sha256), "utf8")).toBe("content");
  expect(await readFile(archive.placeText(sha256), "utf8")).toBe("text");
  const known = await readFile(archive.placeDocument(sha256, "a", "d-1"), "utf8");
  expect(JSON.parse(known)).toEqual(found);
});

test("adding a document again keeps one copy, in the same file", async () => {
  const { archive, root, content, text } = await makeDesk();
  await archive.add(describeDocument(), content, text);
  const { ino } = await stat(archive.placeContent(sha256));
  await archive.add(describeDocument(), content, text);
  expect((await listAll(root)).length).toBe(3);
  expect((await stat(archive.placeContent(sha256))).ino).toBe(ino);
});

test("two documents with the same content share it", async () => {
  const { archive, root, content, text } = await makeDesk();
  await archive.add(describeDocument(), content, text);
  await archive.add(describeDocument({ document: "d-2" }), content, text);
  await archive.add(describeDocument({ site: "b" }), content, text);
  expect((await listAll(root)).map((name) => name.split(".").at(-1))).toEqual([
    "json",
    "json",
    "json",
    "pdf",
    "txt",
  ]);
});

test("names from outside are not used as file names", async () => {
  const { archive, root } = await makeDesk();
  const path = archive.placeDocument(sha256, "../..", "../../../etc/passwd\u0000");
  expect(path).toMatch(new RegExp(`^${root}/[0-9a-f]{2}/${sha256}\\.[0-9a-f]{16}\\.json$`));
  // The boundary between the two names is part of the hash.
  expect(archive.placeDocument(sha256, "a", "b-c")).not.toBe(
    archive.placeDocument(sha256, "a-b", "c"),
  );
});

test("a repeated attempt does not change what is archived", async () => {
  const { archive, content, text } = await makeDesk();
  await archive.add(describeDocument(), content, text);
  // The text is written in place; a received file arrives by a rename.
  await writeFile(text, "");
  await writeFile(`${content}.part`, "");
  await rename(`${content}.part`, content);
  expect(await readFile(archive.placeText(sha256), "utf8")).toBe("text");
  expect(await readFile(archive.placeContent(sha256), "utf8")).toBe("content");
});

test("a document counts as archived only when its text is written", async () => {
  const { archive, root, content } = await makeDesk();
  await expect(archive.add(describeDocument(), content, `${content}.gone`)).rejects.toThrow(
    "ENOENT",
  );
  expect(await listAll(root)).toEqual([`${sha256}.pdf`]);
  const { text } = await makeDesk();
  await archive.add(describeDocument(), content, text);
  expect((await listAll(root)).length).toBe(3);
});
