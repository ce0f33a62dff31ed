/** A placed file is complete or absent. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { placeFile } from "./place-file.ts";

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-place-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

test("a placed file replaces the earlier one and leaves nothing else", async () => {
  const folder = await makeFolder();
  const path = join(folder, "f");
  for (const text of ["one", "two"]) {
    await placeFile(path, async (part) => {
      await writeFile(part, text);
      expect(await readFile(path, "utf8").catch(() => "none")).not.toBe(text);
    });
    expect(await readFile(path, "utf8")).toBe(text);
  }
  expect(await readdir(folder)).toEqual(["f"]);
});

test("a failed write keeps the earlier file and leaves no partial file", async () => {
  const folder = await makeFolder();
  const path = join(folder, "f");
  await writeFile(path, "before");
  const write = async (part: string): Promise<void> => {
    await writeFile(part, "half");
    throw new Error("the disk is full");
  };
  await expect(placeFile(path, write)).rejects.toThrow("the disk is full");
  expect(await readFile(path, "utf8")).toBe("before");
  expect(await readdir(folder)).toEqual(["f"]);
});

test("placing fails if nothing was written, or if a folder has the name", async () => {
  const folder = await makeFolder();
  await expect(placeFile(join(folder, "f"), async () => {})).rejects.toThrow("ENOENT");
  await mkdir(join(folder, "taken", "x"), { recursive: true });
  const taken = placeFile(join(folder, "taken"), (part) => writeFile(part, ""));
  await expect(taken).rejects.toThrow(/EISDIR|ENOTEMPTY/);
  expect(await readdir(folder)).toEqual(["taken"]);
});

test("two concurrent placements do not disturb each other", async () => {
  const folder = await makeFolder();
  const path = join(folder, "f");
  const both = Promise.withResolvers<void>();
  let writing = 0;
  const place = (text: string): Promise<void> =>
    placeFile(path, async (part) => {
      if (++writing === 2) both.resolve();
      await both.promise;
      await writeFile(part, text);
    });
  await Promise.all([place("aaaa"), place("bbbb")]);
  expect(await readFile(path, "utf8")).toMatch(/^(aaaa|bbbb)$/);
  expect(await readdir(folder)).toEqual(["f"]);
});
