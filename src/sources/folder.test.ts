import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { folder, type FolderOptions, walk } from "./folder.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "sluice-folder-"));
});
afterEach(() => rmSync(root, { recursive: true }));

function put(path: string, content = ""): string {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
  return join(root, path);
}

async function pathsOf(options: FolderOptions = {}, within = root): Promise<string[]> {
  const paths: string[] = [];
  for await (const item of folder(within, options)) paths.push(item.path);
  return paths;
}

describe("folder", () => {
  test("an item has the path, size and age of a file", async () => {
    const path = put("sub/a.txt", "hello");
    utimesSync(path, 1_700_000_000.25, 1_700_000_000.25);
    const items = [];
    for await (const item of folder(root)) items.push(item);
    expect(items).toEqual([
      { path: "sub/a.txt", absolutePath: path, bytes: 5, modifiedAt: 1_700_000_000_250 },
    ]);
  });

  test("files come in plain string order of their paths, whatever the folders", async () => {
    for (const path of ["b", "a/z", "a/b/c", "a-1", "a.txt", "a0", "Z", "ä", "c/d"]) put(path);
    expect(await pathsOf()).toEqual(
      ["b", "a/z", "a/b/c", "a-1", "a.txt", "a0", "Z", "ä", "c/d"].toSorted(),
    );
  });

  test("a folder with more names than are held at once is listed completely, in order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.stringMatching(/^[a-c]{1,2}(\/[a-c]{1,2}x)?$/), { maxLength: 30 }),
        fc.integer({ min: 1, max: 5 }),
        async (paths, namesMax) => {
          rmSync(root, { recursive: true });
          mkdirSync(root);
          const files = paths.map((path) => `${path}.f`);
          for (const path of files) put(path);
          const seen: string[] = [];
          for await (const item of walk(root, () => true, false, namesMax)) seen.push(item.path);
          expect(seen).toEqual(files.toSorted());
        },
      ),
      { numRuns: 60 },
    );
  });

  test("more files than are read at once keep their order", async () => {
    const names = Array.from({ length: 100 }, (_, at) => `f${String(at).padStart(3, "0")}`);
    for (const name of names.toReversed()) put(name);
    expect(await pathsOf()).toEqual(names);
  });

  test("hidden files and folders are left out by default", async () => {
    for (const path of [".a", ".git/config", "b/.c", "b/d"]) put(path);
    expect(await pathsOf()).toEqual(["b/d"]);
    expect(await pathsOf({ hidden: true })).toEqual([".a", ".git/config", "b/.c", "b/d"]);
  });

  test("a pattern or a glob picks files by their path", async () => {
    for (const path of ["a.pdf", "b.txt", "sub/c.pdf", "sub/d.PDF"]) put(path);
    expect(await pathsOf({ match: /\.pdf$/gi })).toEqual(["a.pdf", "sub/c.pdf", "sub/d.PDF"]);
    expect(await pathsOf({ match: "**/*.pdf" })).toEqual(["a.pdf", "sub/c.pdf"]);
    expect(await pathsOf({ match: "*.pdf" })).toEqual(["a.pdf"]);
    expect(await pathsOf({ match: "sub/*" })).toEqual(["sub/c.pdf", "sub/d.PDF"]);
  });

  test("links are neither items nor followed, inside or outside of the folder", async () => {
    const outside = mkdtempSync(join(tmpdir(), "sluice-outside-"));
    writeFileSync(join(outside, "secret"), "");
    put("a/b");
    symlinkSync(outside, join(root, "out"));
    symlinkSync(join(outside, "secret"), join(root, "secret"));
    symlinkSync(root, join(root, "a/loop"));
    symlinkSync("nowhere", join(root, "broken"));
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "pipe")]);
    expect(await pathsOf()).toEqual(["a/b"]);
    rmSync(outside, { recursive: true });
  });

  test("a folder that is replaced by a link during the walk is not entered", async () => {
    const outside = mkdtempSync(join(tmpdir(), "sluice-outside-"));
    writeFileSync(join(outside, "secret"), "");
    put("a");
    put("b/c");
    const seen: string[] = [];
    for await (const { path } of folder(root)) {
      seen.push(path);
      rmSync(join(root, "b"), { recursive: true });
      symlinkSync(outside, join(root, "b"));
    }
    expect(seen).toEqual(["a"]);
    rmSync(outside, { recursive: true });
  });

  test("files that are removed during the walk are left out", async () => {
    for (const path of ["a", "b/c", "d/e"]) put(path);
    const seen: string[] = [];
    for await (const { path } of folder(root)) {
      seen.push(path);
      rmSync(join(root, "b"), { recursive: true, force: true });
    }
    expect(seen).toEqual(["a", "d/e"]);
  });

  test("the folder itself may be named through a link", async () => {
    put("real/a");
    symlinkSync(join(root, "real"), join(root, "link"));
    expect(await pathsOf({}, join(root, "link"))).toEqual(["a"]);
  });

  test("it can be walked twice", async () => {
    put("a");
    const source = folder(root);
    const seen: string[] = [];
    for await (const { path } of source) seen.push(path);
    for await (const { path } of source) seen.push(path);
    expect(seen).toEqual(["a", "a"]);
  });

  test("a name that is not UTF-8 is refused, not skipped", async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x61, 0xe4])]), "");
    await expect(pathsOf()).rejects.toMatchObject({
      code: "SOURCE_UNREADABLE",
      message: expect.stringContaining("is not UTF-8") as string,
    });
  });

  test("a missing folder and a file are refused", async () => {
    await expect(pathsOf({}, join(root, "missing"))).rejects.toMatchObject({
      name: "SluiceError",
      code: "SOURCE_MISSING",
    });
    await expect(pathsOf({}, put("file"))).rejects.toMatchObject({ code: "SOURCE_UNREADABLE" });
  });

  test("options are checked at once", () => {
    expect(() => folder("")).toThrow(/the path is/);
    expect(() => folder("x", { match: "" })).toThrow(/neither a pattern nor a glob/);
    expect(() => folder("x", { glob: "*" } as FolderOptions)).toThrow(/no option glob/);
  });
});
