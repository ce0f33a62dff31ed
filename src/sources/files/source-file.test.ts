import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { describeFileError, SourceFile } from "./source-file.ts";

let folder = "";
let file: SourceFile;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-file-"));
  writeFileSync(join(folder, "file"), "content");
  file = new SourceFile(join(folder, "file"));
});
afterEach(async () => {
  await file.close();
  rmSync(folder, { recursive: true });
});

const handleOf = (): Promise<FileHandle> => file.use((handle) => Promise.resolve(handle));

describe("SourceFile", () => {
  test("all reads share one open file until it is closed", async () => {
    const [first, second] = await Promise.all([handleOf(), handleOf()]);
    expect(second).toBe(first);
    expect(await handleOf()).toBe(first);
    await file.close();
    expect(first.fd).toBe(-1);
    expect(await handleOf()).not.toBe(first);
  });

  test("close waits for the reads under way, and a later read opens the file again", async () => {
    const gate = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<FileHandle>();
    const reading = file.use(async (handle) => {
      entered.resolve(handle);
      await gate.promise;
      return handle.fd;
    });
    const handle = await entered.promise;
    const closing = file.close();
    expect(await handleOf()).not.toBe(handle);
    gate.resolve();
    expect(await reading).toBeGreaterThan(0);
    await closing;
    expect(handle.fd).toBe(-1);
  });

  test("an open file with a failed read is closed and not used again", async () => {
    const first = await handleOf();
    await expect(file.use(() => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(first.fd).toBe(-1);
    expect(await handleOf()).not.toBe(first);
  });

  test("the next read retries a file that could not be opened", async () => {
    const missing = new SourceFile(join(folder, "later"));
    const use = (): Promise<number> => missing.use((handle) => Promise.resolve(handle.fd));
    await expect(Promise.all([use(), use()])).rejects.toMatchObject({ code: "SOURCE_MISSING" });
    writeFileSync(join(folder, "later"), "");
    expect(await use()).toBeGreaterThan(0);
    await missing.close();
    await missing.close();
  });
});

describe("describeFileError", () => {
  test("marks transient failures as retryable", () => {
    const fail = (code: string) =>
      describeFileError("/a", Object.assign(new Error(code), { code }));
    expect(fail("EMFILE")).toMatchObject({ code: "SOURCE_UNREADABLE", retryable: true });
    expect(fail("EISDIR")).toMatchObject({ code: "SOURCE_UNREADABLE", retryable: false });
    expect(fail("ENOENT")).toMatchObject({ code: "SOURCE_MISSING", retryable: false });
    expect(describeFileError("/a", "odd")).toMatchObject({ code: "SOURCE_UNREADABLE" });
  });
});
