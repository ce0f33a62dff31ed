import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PermanentError } from "../../core/base/errors.ts";
import type { Slice, SliceItems, Source } from "../../ports/source.ts";
import { csv, type CsvOptions } from "./csv.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-csv-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(content: string | Buffer): string {
  const path = join(folder, `${files++}.csv`);
  writeFileSync(path, content);
  return path;
}

const WHOLE = { chunkSize: 1_000, sliceBytesMax: 1 << 20, after: null };

async function sliceAll(
  source: Source,
  request: { chunkSize?: number; sliceBytesMax?: number; after?: string } = {},
) {
  const slices: Slice[] = [];
  for await (const slice of source.slice({ ...WHOLE, ...request })) slices.push(slice);
  return slices;
}

/** Each item, or code and message of the error in its place. */
function outcomes(slices: readonly SliceItems[]): unknown[] {
  return slices.flatMap((items) =>
    Array.from({ length: items.count }, (_, position) => {
      try {
        return items.at(position);
      } catch (error) {
        if (!(error instanceof PermanentError)) throw error;
        return [error.code, error.message.slice(error.message.indexOf(".csv, ") + 6)];
      }
    }),
  );
}

async function readAll(
  content: string | Buffer,
  options: CsvOptions = {},
  request = {},
): Promise<unknown[]> {
  const source = csv(write(content), options);
  const slices = await sliceAll(source, request);
  try {
    return outcomes(await source.read(slices.map((slice) => slice.locator)));
  } finally {
    await source.close?.();
  }
}

const delimiters = fc.constantFrom(",", ";", "\t", "|");
const text = fc.string({
  unit: fc.constantFrom("a", "B", " ", "é", "☃", "😀", '"', "\n", "\r\n", ",", ";", "\t", "|"),
  maxLength: 6,
});

/** A field as some program may write it: in quotes when needed, or anyway. */
function spellField(value: string, delimiter: string, quoted: boolean): string {
  const mustQuote = /[\r\n]|^"/.test(value) || value.includes(delimiter);
  return quoted || mustQuote ? `"${value.replaceAll('"', '""')}"` : value;
}

const table = fc
  .record({ delimiter: delimiters, columns: fc.integer({ min: 1, max: 4 }) })
  .chain(({ delimiter, columns }) => {
    const field = fc
      .tuple(text, fc.boolean())
      .map(([value, quoted]) => spellField(value, delimiter, quoted));
    const record = fc.array(field, { minLength: columns, maxLength: columns });
    const end = fc.constantFrom("\n", "\r\n");
    return fc.record({
      delimiter: fc.constant(delimiter),
      header: fc.constant(
        Array.from({ length: columns }, (_, at) => spellField(`n${at}\n"x"`, delimiter, true)),
      ),
      mark: fc.constantFrom("", "\ufeff"),
      blank: fc.constantFrom("", "\n", "\r\n\n"),
      records: fc.array(fc.tuple(record, end), { maxLength: 8 }),
      lastEnd: fc.boolean(),
    });
  })
  .map(({ delimiter, header, mark, blank, records, lastEnd }) => {
    const lines = records.map(([record, end]) => record.join(delimiter) + end + blank);
    const whole = `${mark}${blank}${header.join(delimiter)}\n${lines.join("")}`;
    return { delimiter, content: lastEnd ? whole : whole.replace(/\r?\n$/, "") };
  });
const sizes = fc.record({
  chunkSize: fc.integer({ min: 1, max: 4 }),
  sliceBytesMax: fc.integer({ min: 1, max: 60 }),
  bufferBytes: fc.integer({ min: 1, max: 30 }),
});

describe("slicing", () => {
  test("the slices' items together equal csv-parse's result for the whole file", async () => {
    await fc.assert(
      fc.asyncProperty(table, sizes, async ({ delimiter, content }, size) => {
        const { bufferBytes, ...request } = size;
        const expected: unknown = parse(content, {
          bom: true,
          columns: true,
          delimiter,
          record_delimiter: ["\r\n", "\n"],
          relax_quotes: true,
          skip_empty_lines: true,
        });
        expect(await readAll(content, { delimiter, bufferBytes }, request)).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });

  test("slicing continues after any cursor with no gap and no repeat", async () => {
    await fc.assert(
      fc.asyncProperty(table, sizes, async ({ delimiter, content }, size) => {
        const { bufferBytes, ...request } = size;
        const source = csv(write(content), { delimiter, bufferBytes });
        const slices = await sliceAll(source, request);
        for (const [index, { cursor }] of slices.entries()) {
          const rest = await sliceAll(source, { ...request, after: cursor });
          expect(rest).toEqual(slices.slice(index + 1));
        }
      }),
      { numRuns: 50 },
    );
  });

  test("the items of any bytes do not depend on chunks, buffers or the order of reading", async () => {
    const garbage = fc.string({
      unit: fc.constantFrom('"', '"', ",", "\n", "\n", "\r", "a", "é"),
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(garbage, sizes, fc.constantFrom(6, 20, 1_000), async (body, size, max) => {
        const { bufferBytes, ...request } = size;
        const path = write(`a,b\n${body}`);
        const plain = csv(path, { itemBytesMax: max });
        const whole = await sliceAll(plain);
        const expected = outcomes(await plain.read(whole.map((slice) => slice.locator)));
        const other = csv(path, { itemBytesMax: max, bufferBytes });
        const slices = (await sliceAll(other, request)).reverse();
        const read = await other.read(slices.map((slice) => slice.locator));
        await Promise.all([plain.close?.(), other.close?.()]);
        expect(outcomes([...read].reverse())).toEqual(expected);
      }),
      { numRuns: 200 },
    );
  });

  test("a file with no record after its header has no slices", async () => {
    for (const empty of ["", "\ufeff", "\n\r\n", "a,b", "a,b\n", "\n\na,b\n\n"]) {
      expect(await sliceAll(csv(write(empty)))).toEqual([]);
    }
  });

  test("only an empty line is blank, wherever a buffer ends", async () => {
    for (const bufferBytes of [1, 2, 3, 100]) {
      expect(await readAll("a\n\r\n\r\r\n\n \n", { bufferBytes })).toEqual([
        { a: "\r" },
        { a: " " },
      ]);
    }
  });

  test("a header longer than the first read is read completely", async () => {
    const names = Array.from({ length: 5_000 }, (_, at) => `column-${at}`);
    const [item] = await readAll(`${names.join(",")}\n${names.map(() => "1").join(",")}`);
    expect(Object.keys(item as object)).toEqual(names);
  });
});

describe("names", () => {
  test("columns are renamed, the others keep their names", async () => {
    expect(await readAll("Id,E-mail\n1,a@b.c\n", { columns: { "E-mail": "email" } })).toEqual([
      { Id: "1", email: "a@b.c" },
    ]);
  });

  test("a file without a header gets its names from the options", async () => {
    expect(await readAll("\ufeff1;2\n", { header: ["a", "b"], delimiter: ";" })).toEqual([
      { a: "1", b: "2" },
    ]);
  });

  test("names that every object has are plain properties", async () => {
    const [item] = await readAll("constructor,toString\n1,2\n");
    expect(Object.entries(item as object)).toEqual([
      ["constructor", "1"],
      ["toString", "2"],
    ]);
  });

  test("a header that cannot name properties is refused when slicing starts", async () => {
    const cases: [string | Buffer, CsvOptions, RegExp][] = [
      ["a,b,a\n1,2,3\n", {}, /names column 3 "a", as another column/],
      ["a,,c\n", {}, /no name for column 2/],
      ["a,__proto__\n", {}, /names column 2 __proto__/],
      ["a,b\n", { columns: { c: "d" } }, /has no column "c", which the option columns lists/],
      ["a,b\n", { columns: { b: "a" } }, /names column 2 "a"/],
      ['a,"b\n', {}, /this quote is never closed, column 3/],
      ['"a"x,b\n', {}, /text after a closing quote, column 4/],
      ["a,b\r1,2\r3,4\r", {}, /bare carriage return/],
      [Buffer.from([0x61, 0xe4, 0x0a]), {}, /is not UTF-8/],
      [`"${"x".repeat(2 << 20)}`, {}, /is longer than/],
    ];
    for (const [content, options, message] of cases) {
      await expect(sliceAll(csv(write(content), options))).rejects.toMatchObject({
        name: "SluiceError",
        code: "BAD_HEADER",
        message: expect.stringMatching(message) as string,
        hint: expect.any(String) as string,
      });
    }
  });
});

describe("a bad record fails alone", () => {
  test("another number of fields than the header's", async () => {
    expect(await readAll("a,b\n1,2\n3\n\n4,5,6\n7,8\n")).toEqual([
      { a: "1", b: "2" },
      [
        "WRONG_FIELD_COUNT",
        expect.stringMatching(/^line 3: the record has 1 fields and the header 2/),
      ],
      ["WRONG_FIELD_COUNT", expect.stringMatching(/^line 5: the record has 3 fields/)],
      { a: "7", b: "8" },
    ]);
  });

  test("an unclosed quote names the line where it opened", async () => {
    expect(await readAll('a,b\n1,2\n"x\ny","z\n3,4\n5,6\n')).toEqual([
      { a: "1", b: "2" },
      ["MALFORMED_RECORD", expect.stringMatching(/^line 4, column 4: this quote is never closed/)],
    ]);
  });

  test("an unclosed quote over the limit names the line too", async () => {
    const content = `a,b\n1,2\n"x\ny","z\n${"3,4\n".repeat(100)}`;
    for (const bufferBytes of [1, 10, 1_000]) {
      expect(await readAll(content, { itemBytesMax: 50, bufferBytes })).toEqual([
        { a: "1", b: "2" },
        ["MALFORMED_RECORD", expect.stringMatching(/^line 3: a quote opened on line 4 is never/)],
      ]);
    }
  });

  test("text after a closing quote", async () => {
    expect(await readAll('a,b\n"1"x,2\n3,4\n')).toEqual([
      ["MALFORMED_RECORD", expect.stringMatching(/^line 2, column 4: text after a closing quote/)],
      { a: "3", b: "4" },
    ]);
  });

  test("a record over the limit", async () => {
    expect(await readAll(`a,b\n1,2\n"${"x\n".repeat(50)}",2\n3,4\n`, { itemBytesMax: 50 })).toEqual(
      [
        { a: "1", b: "2" },
        [
          "RECORD_TOO_LONG",
          expect.stringMatching(/^line 3: the record has 105 bytes, and at most 50/),
        ],
        { a: "3", b: "4" },
      ],
    );
    expect(await readAll(`a,b\n${"x".repeat(99)},\nbad\n`, { itemBytesMax: 50 })).toEqual([
      ["RECORD_TOO_LONG", expect.stringMatching(/^line 2/)],
      ["WRONG_FIELD_COUNT", expect.stringMatching(/^line 3/)],
    ]);
  });

  test("bytes that are not UTF-8, and NUL bytes", async () => {
    const content = Buffer.concat([
      Buffer.from("a,b\nä,☃\n"),
      Buffer.from([0xe4, 0x2c, 0x0a]),
      Buffer.from("x\0y,\n1,2\n"),
    ]);
    expect(await readAll(content)).toEqual([
      { a: "ä", b: "☃" },
      ["INVALID_UTF8", expect.stringMatching(/^line 3: the record is not UTF-8/)],
      ["NUL_BYTE", expect.stringMatching(/^line 4: the record contains a NUL byte: x\\u\{0\}y/)],
      { a: "1", b: "2" },
    ]);
  });

  test("a quote within a field is text, as is an inch mark", async () => {
    expect(await readAll('a,b\n5" pipe,say "hi"\n')).toEqual([{ a: '5" pipe', b: 'say "hi"' }]);
  });
});

describe("a file that changed", () => {
  async function changed(before: string, after: string | null): Promise<unknown> {
    const path = write(before);
    const source = csv(path);
    const slices = await sliceAll(source, { chunkSize: 1 });
    if (after === null) rmSync(path);
    else writeFileSync(path, after);
    try {
      return await source.read([slices.at(-1)!.locator]);
    } finally {
      await source.close?.();
    }
  }

  test("is refused when its header has changed, though the record has not", async () => {
    await expect(changed("a,b\n1,2\n3,4\n", "b,a\n1,2\n3,4\n")).rejects.toMatchObject({
      code: "SOURCE_CHANGED",
      message: expect.stringContaining("its header (bytes 0 to 4") as string,
    });
  });

  test("is refused when the record has changed", async () => {
    await expect(changed("a,b\n1,2\n3,4\n", "a,b\n1,2\n3,5\n")).rejects.toMatchObject({
      code: "SOURCE_CHANGED",
      message: expect.stringContaining("bytes 8 to 12 (from line 3 on)") as string,
    });
  });

  test("is refused when it is gone or shorter", async () => {
    await expect(changed("a\n1\n", null)).rejects.toMatchObject({ code: "SOURCE_MISSING" });
    await expect(changed("a\n1\n", "a")).rejects.toMatchObject({ code: "SOURCE_CHANGED" });
  });

  test("is accepted when only other records have changed", async () => {
    const read = await changed("a,b\n1,2\n3,4\n", "a,b\n9,9\n3,4\n");
    expect(outcomes(read as SliceItems[])).toEqual([{ a: "3", b: "4" }]);
  });
});

describe("options", () => {
  test("invalid delimiters, headers and sizes are refused", () => {
    for (const delimiter of ["", ",,", '"', "\n", "\r", "é", "\0"]) {
      expect(() => csv("x", { delimiter })).toThrow(/delimiter is/);
    }
    expect(() => csv("x", { header: false as unknown as true })).toThrow(/neither true nor a list/);
    expect(() => csv("x", { header: [] })).toThrow(/neither true nor a list/);
    expect(() => csv("x", { header: ["a", "a"] })).toThrow(/names column 2/);
    expect(() => csv("x", { header: ["a"], columns: { b: "c" } })).toThrow(/no column "b"/);
    expect(() => csv("x", { itemBytesMax: 0 })).toThrow(/itemBytesMax is 0/);
    expect(() => csv("x", { separator: ";" } as CsvOptions)).toThrow(/no option separator/);
  });

  test("refuses a locator of another kind of source", async () => {
    const source = csv(write("a\n1\n"));
    await expect(source.read(["[0,2,1,1,0,0,0]"])).rejects.toMatchObject({
      code: "PIPELINE_CHANGED",
    });
  });
});
