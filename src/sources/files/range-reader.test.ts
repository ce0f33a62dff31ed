import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { readRanges } from "./range-reader.ts";
import type { RecordRange } from "./record-range.ts";

let folder = "";
let path = "";
let handle: FileHandle;
const content = Buffer.from(Array.from({ length: 1_000 }, (_, at) => at % 251));

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "sluice-ranges-"));
  path = join(folder, "file");
  writeFileSync(path, content);
  handle = await open(path);
});
afterEach(async () => {
  await handle.close();
  rmSync(folder, { recursive: true });
});

const range = (from: number, to: number): RecordRange => ({
  from,
  to,
  line: 1,
  items: 1,
  crc: crc32(content.subarray(from, to)),
  overlong: false,
  openQuoteLine: 0,
});

async function reads(ranges: RecordRange[], bytesMax: number): Promise<[number, Buffer[]]> {
  const spy = vi.spyOn(handle, "read");
  const pieces = await readRanges(path, handle, ranges, (_, bytes) => bytes, undefined, bytesMax);
  return [spy.mock.calls.length, pieces];
}

describe("readRanges", () => {
  test("adjacent ranges share one read", async () => {
    const ranges = Array.from({ length: 100 }, (_, at) => range(at * 10, at * 10 + 10));
    const [count, pieces] = await reads(ranges, 1_000);
    expect(count).toBe(1);
    expect(Buffer.concat(pieces)).toEqual(content);
  });

  test("no read is larger than its limit, unless one range is", async () => {
    const ranges = [range(0, 40), range(40, 80), range(80, 120), range(120, 400), range(400, 410)];
    const [count, pieces] = await reads(ranges, 100);
    expect(count).toBe(4);
    expect(pieces.map((piece) => piece.length)).toEqual([40, 40, 40, 280, 10]);
  });

  test("a small gap is read too, a step back starts a new read", async () => {
    const [count, pieces] = await reads([range(500, 510), range(520, 530), range(0, 10)], 1_000);
    expect(count).toBe(2);
    expect(pieces[1]).toEqual(content.subarray(520, 530));
    expect(pieces[2]).toEqual(content.subarray(0, 10));
  });

  test("a read that the system cuts short is continued", async () => {
    const original = handle.read.bind(handle) as (
      ...args: [Buffer, number, number, number]
    ) => Promise<{ bytesRead: number }>;
    vi.spyOn(handle, "read").mockImplementation(((...args: [Buffer, number, number, number]) =>
      original(args[0], args[1], Math.min(args[2], 7), args[3])) as never);
    const pieces = await readRanges(path, handle, [range(3, 100)], (_, bytes) => bytes);
    expect(pieces).toEqual([content.subarray(3, 100)]);
  });

  test("old bytes in a reused buffer are not taken for those of the file", async () => {
    vi.spyOn(Buffer, "allocUnsafe").mockImplementation((bytes) =>
      Buffer.from(content.subarray(0, bytes)),
    );
    truncateSync(path, 10);
    await expect(reads([range(0, 20)], 100)).rejects.toMatchObject({ code: "SOURCE_CHANGED" });
  });

  test("no ranges cause no read", async () => {
    expect(await reads([], 100)).toEqual([0, []]);
  });
});
