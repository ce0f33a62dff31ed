import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Slice, SliceItems, SliceRequest, Source } from "../../ports/source.ts";
import { jsonl } from "./jsonl.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-refusals-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(content: string | Buffer): string {
  const path = join(folder, `${files++}.jsonl`);
  writeFileSync(path, content);
  return path;
}

async function sliceAll(source: Source, request: Partial<SliceRequest> = {}): Promise<Slice[]> {
  const slices: Slice[] = [];
  const whole = { chunkSize: 1_000, sliceBytesMax: 1 << 20, after: null };
  for await (const slice of source.slice({ ...whole, ...request })) slices.push(slice);
  return slices;
}

const itemsOf = (slices: readonly SliceItems[]): unknown[] =>
  slices.flatMap((items) => Array.from({ length: items.count }, (_, at) => items.at(at)));

describe("a file that changed", () => {
  async function changed(before: string, change: (path: string) => void): Promise<unknown> {
    const path = write(before);
    const source = jsonl(path);
    const slices = await sliceAll(source, { chunkSize: 2 });
    change(path);
    try {
      return await source.read(slices.map((slice) => slice.locator));
    } finally {
      await source.close?.();
    }
  }

  test("is refused when a byte has changed", async () => {
    const reading = changed("1\n2\n3\n4\n", (path) => writeFileSync(path, "1\n2\n3\n5\n"));
    await expect(reading).rejects.toMatchObject({
      name: "SluiceError",
      code: "SOURCE_CHANGED",
      message: expect.stringMatching(/bytes 4 to 8 \(from line 3 on\) are different/) as string,
      hint: expect.stringContaining("Submit the batch again") as string,
    });
  });

  test("is refused when it is shorter", async () => {
    await expect(
      changed("1\n2\n3\n4\n", (path) => writeFileSync(path, "1\n2\n3")),
    ).rejects.toMatchObject({
      code: "SOURCE_CHANGED",
      message: expect.stringContaining("bytes 4 to 8 (from line 3 on) are missing") as string,
    });
  });

  test("is refused when it is gone", async () => {
    await expect(changed("1\n", (path) => rmSync(path))).rejects.toMatchObject({
      code: "SOURCE_MISSING",
    });
  });

  test("is accepted when it has grown", async () => {
    const read = await changed("1\n2\n", (path) => writeFileSync(path, "1\n2\n3\n"));
    expect(itemsOf(read as SliceItems[])).toEqual([1, 2]);
  });

  test("is read again once it is restored", async () => {
    const path = write("1\n2\n");
    const source = jsonl(path);
    const [slice] = await sliceAll(source);
    await source.read([slice!.locator]);
    writeFileSync(path, "1\n3\n");
    await expect(source.read([slice!.locator])).rejects.toMatchObject({ code: "SOURCE_CHANGED" });
    rmSync(path);
    writeFileSync(path, "1\n2\n");
    expect(itemsOf(await source.read([slice!.locator]))).toEqual([1, 2]);
    await source.close?.();
  });

  test("is refused when the beginning of an overlong line has changed", async () => {
    const path = write(`${"x".repeat(1_000)}\n`);
    const source = jsonl(path, { itemBytesMax: 100 });
    const [slice] = await sliceAll(source);
    writeFileSync(path, `${"y".repeat(1_000)}\n`);
    await expect(source.read([slice!.locator])).rejects.toMatchObject({ code: "SOURCE_CHANGED" });
  });

  test("cannot be sliced further where no line begins any more", async () => {
    const path = write("1\n2\n3\n");
    const source = jsonl(path);
    const [slice] = await sliceAll(source, { chunkSize: 1 });
    for (const now of ["123\n4\n", "1"]) {
      writeFileSync(path, now);
      await expect(sliceAll(source, { after: slice!.cursor })).rejects.toMatchObject({
        code: "SOURCE_CHANGED",
      });
    }
  });

  test("has no slices after its last cursor", async () => {
    const source = jsonl(write("1\n2"));
    const [slice] = await sliceAll(source);
    expect(await sliceAll(source, { after: slice!.cursor })).toEqual([]);
  });
});

describe("a path that is not a readable file", () => {
  const refused = async (path: string, code: string, text: RegExp): Promise<void> => {
    const error = await sliceAll(jsonl(path)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: "SluiceError", code });
    expect((error as Error).message).toContain(path);
    expect(`${(error as Error).message} ${(error as { hint: string }).hint}`).toMatch(text);
  };

  test("a missing file is refused as soon as slicing starts", () =>
    refused(join(folder, "missing.jsonl"), "SOURCE_MISSING", /does not exist Check the path/));

  test("a folder is refused", () =>
    refused(folder, "SOURCE_UNREADABLE", /is a folder, not a file .*folder\(\)/));

  test("a pipe is refused without waiting for its writer", async () => {
    const path = join(folder, "pipe");
    execFileSync("sh", ["-c", 'mkfifo "$0"', path]);
    await refused(path, "SOURCE_UNREADABLE", /a pipe or a device.*Save it as a file/);
  });

  test("a file without the right to read is refused", async (context) => {
    const path = write("1\n");
    chmodSync(path, 0o000);
    chmodSync(folder, 0o755);
    const isRoot = process.getuid?.() === 0;
    try {
      // Root may read everything, so become another user for a moment.
      if (isRoot) process.seteuid?.(65_534);
    } catch {
      context.skip("this runner cannot change its user, and root may read everything");
    }
    try {
      await refused(path, "SOURCE_UNREADABLE", /may not read .*right to read/);
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  test("UTF-16, gzip and ZIP are refused as a whole, not line by line", async () => {
    await refused(write(Buffer.from("\ufeff1\n", "utf16le")), "SOURCE_UNREADABLE", /UTF-16.*iconv/);
    await refused(write(Buffer.from([0x1f, 0x8b, 8, 0])), "SOURCE_UNREADABLE", /gzip.*Unpack/);
    await refused(write("PK\u0003\u0004..."), "SOURCE_UNREADABLE", /ZIP.*export/);
  });
});

describe("options", () => {
  test("sizes that are not whole positive numbers are refused", () => {
    for (const size of [0, -1, Number.NaN, 1.5, Number.POSITIVE_INFINITY, 2 ** 40]) {
      expect(() => jsonl("x", { itemBytesMax: size })).toThrow(/itemBytesMax is/);
      expect(() => jsonl("x", { bufferBytes: size })).toThrow(/bufferBytes is/);
    }
  });

  test("unknown options and empty paths are refused", () => {
    expect(() => jsonl("x", { itemByteMax: 1 } as object)).toThrow(/no option itemByteMax/);
    expect(() => jsonl("")).toThrow(/the path is ""/);
    expect(() => jsonl("a\0b")).toThrow(/the path is/);
  });

  test("a request for slices with 0 items is refused", async () => {
    const source = jsonl(write("1\n"));
    await expect(sliceAll(source, { chunkSize: 0 })).rejects.toMatchObject({ code: "BAD_OPTION" });
    await expect(sliceAll(source, { sliceBytesMax: Number.NaN })).rejects.toMatchObject({
      code: "BAD_OPTION",
    });
  });

  test("a locator or cursor that it did not write is refused", async () => {
    const source = jsonl(write("1\n"));
    for (const text of ["", "x", "[]", "[1,2]", "{}", "[0,-1,1,1,0,0,0]", "[0,2,1,0,0,0,0]"]) {
      await expect(source.read([text])).rejects.toMatchObject({ code: "PIPELINE_CHANGED" });
    }
    await expect(sliceAll(source, { after: "[1]" })).rejects.toMatchObject({
      code: "PIPELINE_CHANGED",
    });
  });
});
