import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PermanentError } from "../../core/base/errors.ts";
import type { Slice, SliceItems, Source } from "../../ports/source.ts";
import { jsonl } from "./jsonl.ts";
import { parseRange } from "../files/record-range.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-jsonl-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(content: string | Buffer): string {
  const path = join(folder, `${files++}.jsonl`);
  writeFileSync(path, content);
  return path;
}

const WHOLE = { chunkSize: 1_000, sliceBytesMax: 1 << 20, after: null };

async function sliceAll(
  source: Source,
  request: { chunkSize?: number; sliceBytesMax?: number; after?: string } = {},
): Promise<Slice[]> {
  const slices: Slice[] = [];
  for await (const slice of source.slice({ ...WHOLE, ...request })) slices.push(slice);
  return slices;
}

function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    const link = `/proc/self/fd/${fd}`;
    return existsSync(link) ? [readlinkSync(link)] : [];
  });
}

/** Each item, or the code of the error in its place. */
function outcomes(slices: readonly SliceItems[]): unknown[] {
  return slices.flatMap((items) =>
    Array.from({ length: items.count }, (_, position) => {
      try {
        return { item: items.at(position) };
      } catch (error) {
        return error instanceof PermanentError ? error.code : error;
      }
    }),
  );
}

async function readAll(content: string | Buffer, options = {}): Promise<unknown[]> {
  const source = jsonl(write(content), options);
  const slices = await sliceAll(source);
  const result = outcomes(await source.read(slices.map((slice) => slice.locator)));
  await source.close?.();
  return result;
}

/** The error of the only bad line. */
async function messageOf(content: string | Buffer, options = {}): Promise<string> {
  const source = jsonl(write(content), options);
  const slices = await sliceAll(source);
  const read = await source.read(slices.map((slice) => slice.locator));
  await source.close?.();
  for (const items of read) {
    for (let position = 0; position < items.count; position++) {
      try {
        items.at(position);
      } catch (error) {
        return (error as Error).message;
      }
    }
  }
  throw new Error("no line was bad");
}

const jsonLine = fc
  .jsonValue()
  .map((value) => JSON.stringify(value))
  .filter((line) => !line.includes("proto"));
const line = fc.oneof(
  { weight: 4, arbitrary: jsonLine },
  { weight: 1, arbitrary: fc.constantFrom("", " ", "\t", " \t ", "\r") },
  { weight: 1, arbitrary: fc.constantFrom('{"a":', "nul", '"\u2028', "{}x", "\u00a0") },
);
const content = fc
  .record({
    mark: fc.constantFrom("", "\ufeff"),
    lines: fc.array(fc.tuple(line, fc.constantFrom("\n", "\r\n")), { maxLength: 12 }),
    last: fc.option(line, { nil: "" }),
  })
  .map(({ mark, lines, last }) => mark + lines.map((pair) => pair.join("")).join("") + last);
const sizes = fc.record({
  chunkSize: fc.integer({ min: 1, max: 5 }),
  sliceBytesMax: fc.integer({ min: 1, max: 100 }),
  bufferBytes: fc.integer({ min: 1, max: 40 }),
  itemBytesMax: fc.constantFrom(8, 20, 1 << 20),
});

/** Parses the whole file at once, as simply as possible. */
function parseNaively(text: string, itemBytesMax: number): unknown[] {
  return text
    .replace(/^\ufeff/, "")
    .split(/(?<=\n)/)
    .filter((whole) => /[^ \t\r\n]/.test(whole))
    .map((whole) => {
      if (Buffer.byteLength(whole) > itemBytesMax) return "LINE_TOO_LONG";
      try {
        return { item: JSON.parse(whole) as unknown };
      } catch {
        return "MALFORMED_LINE";
      }
    });
}

describe("slicing", () => {
  test("the slices' items together are the file's lines, whatever the sizes", async () => {
    await fc.assert(
      fc.asyncProperty(content, sizes, async (text, { chunkSize, sliceBytesMax, ...options }) => {
        const source = jsonl(write(text), options);
        const slices = await sliceAll(source, { chunkSize, sliceBytesMax });
        const read = await source.read(slices.map((slice) => slice.locator));
        await source.close?.();
        expect(outcomes(read)).toEqual(parseNaively(text, options.itemBytesMax));
        expect(slices.map((slice) => slice.items)).toEqual(read.map((items) => items.count));
        for (const { items } of slices) expect(items).toBeLessThanOrEqual(chunkSize);
      }),
    );
  });

  test("slicing continues after any cursor with no gap and no repeat", async () => {
    await fc.assert(
      fc.asyncProperty(content, sizes, async (text, { chunkSize, sliceBytesMax, ...options }) => {
        const source = jsonl(write(text), options);
        const slices = await sliceAll(source, { chunkSize, sliceBytesMax });
        for (const [index, { cursor }] of slices.entries()) {
          const rest = await sliceAll(source, { chunkSize, sliceBytesMax, after: cursor });
          expect(rest).toEqual(slices.slice(index + 1));
        }
      }),
      { numRuns: 50 },
    );
  });

  test("a slice's range covers exactly its own lines, and only blank ones lie between slices", async () => {
    await fc.assert(
      fc.asyncProperty(content, sizes, async (text, { chunkSize, sliceBytesMax, ...options }) => {
        const bytes = Buffer.from(text);
        const source = jsonl(write(bytes), options);
        let end = text.startsWith("\ufeff") ? 3 : 0;
        for (const { locator, items } of await sliceAll(source, { chunkSize, sliceBytesMax })) {
          const { range } = parseRange("jsonl", locator, 0);
          const own = bytes.toString("utf8", range.from, range.to);
          expect(bytes.toString("utf8", end, range.from)).toMatch(/^[ \t\r\n]*$/);
          expect(parseNaively(own, 1 << 20)).toHaveLength(items);
          expect(range.line).toBe(bytes.toString("utf8", 0, range.from).split("\n").length);
          end = range.to;
        }
        expect(bytes.toString("utf8", end)).toMatch(/^[ \t\r\n]*$/);
      }),
    );
  });

  test("slices are read the same in any order, alone and in runs", async () => {
    await fc.assert(
      fc.asyncProperty(
        content,
        sizes,
        fc.infiniteStream(fc.nat()),
        async (text, { chunkSize, sliceBytesMax, ...options }, numbers) => {
          const source = jsonl(write(text), options);
          const slices = await sliceAll(source, { chunkSize, sliceBytesMax });
          const alone: unknown[] = [];
          for (const { locator } of slices) alone.push(outcomes(await source.read([locator])));
          const order = slices
            .map((_, index) => ({ index, rank: numbers.next().value ?? 0 }))
            .toSorted((a, b) => a.rank - b.rank)
            .map(({ index }) => index);
          const read = await source.read(order.map((index) => slices[index]!.locator));
          await source.close?.();
          expect(read.map((items) => outcomes([items]))).toEqual(order.map((i) => alone[i]));
        },
      ),
      { numRuns: 50 },
    );
  });

  test("a slice ends when its bytes reach their limit", async () => {
    const source = jsonl(write("1\n22\n333\n4444\n"));
    const slices = await sliceAll(source, { sliceBytesMax: 5 });
    expect(slices.map((slice) => slice.items)).toEqual([2, 2]);
  });

  test("a file with no line in it has no slices", async () => {
    for (const empty of ["", "\ufeff", "\n", " \r\n\t\n", "\ufeff\n "]) {
      expect(await sliceAll(jsonl(write(empty)))).toEqual([]);
    }
  });

  test("leading blank lines count as lines", async () => {
    expect(await messageOf("\n\r\n \nbad\n")).toContain(", line 4, column 1:");
  });

  test("an item can be asked for twice and in any order", async () => {
    const source = jsonl(write('{"a":1}\n\n{"a":2}\n{"a":3}'));
    const [slice] = await sliceAll(source);
    const [items] = await source.read([slice!.locator]);
    await source.close?.();
    expect([2, 0, 1, 0].map((position) => items!.at(position))).toEqual([
      { a: 3 },
      { a: 1 },
      { a: 2 },
      { a: 1 },
    ]);
  });

  test("a reader that stops early leaves no file open", async (context) => {
    if (!existsSync("/proc/self/fd")) context.skip("this system does not list a process's files");
    const path = write("1\n2\n3\n");
    for await (const slice of jsonl(path).slice({ ...WHOLE, chunkSize: 1 })) {
      expect(openFiles()).toContain(path);
      expect(slice.items).toBe(1);
      break;
    }
    expect(openFiles()).not.toContain(path);
  });
});

describe("a bad line fails alone", () => {
  test("malformed JSON names line, column, excerpt and remedy", async () => {
    const text = '{"a":1}\n{"a" 2}\n{"a":3}\n';
    expect(await readAll(text)).toEqual([{ item: { a: 1 } }, "MALFORMED_LINE", { item: { a: 3 } }]);
    expect(await messageOf(text)).toMatch(
      /\.jsonl, line 2, column 6: not JSON, ":" is expected here: \{"a" 2\} - Correct the line\.$/,
    );
  });

  test("a last line that was cut off says so", async () => {
    const text = '{"a":1}\n{"a":"hal';
    expect(await readAll(text)).toEqual([{ item: { a: 1 } }, "MALFORMED_LINE"]);
    expect(await messageOf(text)).toMatch(/line 2, column 10: .*the file may be cut off/);
  });

  test("a JSON document over many lines is recognised", async () => {
    expect(await messageOf('{\n  "a": 1\n}\n')).toMatch(/line 1, .*one JSON document over many/);
  });

  test("bytes that are not UTF-8 fail their own line", async () => {
    const bytes = Buffer.concat([
      Buffer.from('{"a":"ä"}\n{"a":"'),
      Buffer.from([0xe4]),
      Buffer.from('"}\n{"a":"☃"}\n'),
    ]);
    expect(await readAll(bytes)).toEqual([
      { item: { a: "ä" } },
      "INVALID_UTF8",
      { item: { a: "☃" } },
    ]);
    expect(await messageOf(bytes)).toMatch(/line 2: the line is not UTF-8: .* - Save the file as/);
  });

  test("a NUL byte fails its own line", async () => {
    const text = '{"a":1}\n{"a":"x\0y"}\n\0\0\0\n{"a":3}\n';
    expect(await readAll(text)).toEqual([
      { item: { a: 1 } },
      "NUL_BYTE",
      "NUL_BYTE",
      { item: { a: 3 } },
    ]);
    expect(await messageOf(text)).toContain(
      'line 2, column 8: the line contains a NUL byte: {"a":"x\\u{0}y"}',
    );
  });

  test("a line over the limit fails alone, wherever it is", async () => {
    const long = JSON.stringify("x".repeat(200));
    for (const bufferBytes of [1, 7, 64, 4_096]) {
      expect(
        await readAll(`1\n2\n${long}\n3\n${long}\n${long}`, { itemBytesMax: 100, bufferBytes }),
      ).toEqual([
        { item: 1 },
        { item: 2 },
        "LINE_TOO_LONG",
        { item: 3 },
        "LINE_TOO_LONG",
        "LINE_TOO_LONG",
      ]);
    }
    expect(await messageOf(`1\n${long}\n`, { itemBytesMax: 100 })).toMatch(
      /line 2: the line has 203 bytes, and at most 100 are read: "xxx.* raise itemBytesMax/,
    );
  });

  test("a line at the limit is read, including its line end", async () => {
    expect(await readAll('"1234"\n', { itemBytesMax: 7 })).toEqual([{ item: "1234" }]);
    expect(await readAll('"1234"\r\n', { itemBytesMax: 7 })).toEqual(["LINE_TOO_LONG"]);
  });

  test("a line of 300 MB is never loaded", async () => {
    const path = write("");
    truncateSync(path, 300_000_000);
    const source = jsonl(path);
    const before = process.memoryUsage();
    const slices = await sliceAll(source);
    const [items] = await source.read(slices.map((slice) => slice.locator));
    const after = process.memoryUsage();
    await source.close?.();
    expect(() => items!.at(0)).toThrow(/the line has 300000000 bytes/);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(8 << 20);
    expect(after.rss - before.rss).toBeLessThan(64 << 20);
  });

  test("keys that pollute prototypes are refused, however they are spelled", async () => {
    const bad = [
      '{"__proto__":{"x":1}}',
      '{"a":[{"b":{"__proto__":1}}]}',
      '{"\\u005f_proto_\\u005F":1}',
      '{"\\u005f\\u005f\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f":1}',
      '{"__pr\\u006fto__":1}',
      '{"__p\\u0072ot\\u006F__":1}',
      '{"constructor":{"prototype":{"x":1}}}',
      '{"c\\u006fnstructor":{"p\\u0072ototype":{"x":1}}}',
      `${"[".repeat(5_000)}{"__proto__":1}${"]".repeat(5_000)}`,
    ];
    const good = [
      '{"a":"__proto__"}',
      '{"constructor":"Ferrari"}',
      '{"prototype":true}',
      '{"constructor":{"name":"x"}}',
      '{"a":"\\u0061\\u003c"}',
      '{"protocol":"https"}',
    ];
    expect(await readAll(bad.join("\n"))).toEqual(bad.map(() => "FORBIDDEN_KEY"));
    for (const text of bad) expect(await readAll(text)).toEqual(["FORBIDDEN_KEY"]);
    expect(await readAll(good.join("\n"))).toEqual(
      good.map((text) => ({ item: JSON.parse(text) })),
    );
    expect(await messageOf(`1\n${bad[0]}\n`)).toMatch(
      /line 2: the key __proto__ .* Rename or remove/,
    );
  });

  test("control characters are spelled out in the excerpt, and the excerpt is short", async () => {
    const message = await messageOf(`{"a":\u001b[31m\u202e${"y".repeat(5_000)}\n`);
    expect(message).toContain('{"a":\\u{1b}[31m\\u{202e}yyy');
    expect(message.length).toBeLessThan(folder.length + 250);
  });
});
