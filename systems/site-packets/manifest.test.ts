/** What a manifest may contain; every mistake is reported with its line. */
import { execFile } from "node:child_process";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { SluiceError } from "sluice";
import { describe, expect, onTestFinished, test } from "vitest";
import { checkConfig } from "./config.ts";
import type { Entry } from "./entry.ts";
import { readManifest } from "./manifest.ts";

const MIB = 1_048_576;
const config = checkConfig(
  { sites: { a: { origin: "https://a.example" }, b: { origin: "https://b.example" } } },
  "of the test",
);
const entry = { site: "a", document: "d-1", type: "cv", schemaVersion: "v2.0", url: "/1.pdf" };
const HEADER = "site,document,type,schemaVersion,url,sha256";
const line = (more: object = {}): string => JSON.stringify({ ...entry, ...more });

async function write(name: string, content: string | Uint8Array): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-manifest-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

async function read(path: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const one of readManifest(path, config)) entries.push(one);
  return entries;
}

async function readText(name: string, content: string | Uint8Array): Promise<Entry[]> {
  return read(await write(name, content));
}

async function refuse(name: string, content: string | Uint8Array): Promise<string> {
  const error: unknown = await readText(name, content).then(
    () => new Error("the manifest was expected to be refused"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(SluiceError);
  const { code, message, hint } = error as SluiceError;
  expect(code).toBe("BAD_MANIFEST");
  expect(hint).toBeTruthy();
  return message;
}

describe("JSON lines", () => {
  test("are read as entries in their order, without blank lines", async () => {
    const entries = await readText("m.jsonl", `${line()}\n\n  \n${line({ site: "b" })}\n`);
    expect(entries).toEqual([entry, { ...entry, site: "b" }]);
  });

  test.for([
    ["without a last line end", line()],
    ["with a byte order mark", `\uFEFF${line()}\n`],
    ["with the line ends of Windows", `${line()}\r\n\r\n`],
  ])("%s are the same", async ([, text]) => {
    expect(await readText("m.jsonl", text as string)).toEqual([entry]);
  });

  test("are complete although a read ends inside a line or a character", async () => {
    const wide = { ...entry, document: "ä€😀".repeat(20) };
    const text = Array.from({ length: 1_500 }, () => JSON.stringify(wide)).join("\n");
    const entries = await readText("m.jsonl", text);
    expect(entries.length).toBe(1_500);
    expect(entries.every(({ document }) => document === wide.document)).toBe(true);
  });

  test("with a Unicode line separator inside are not split there", async () => {
    const message = await refuse("m.jsonl", `{"document":"a\u2028b"}\n${line({ more: 1 })}`);
    expect(message).toMatch(/line 2: Unrecognized key/);
  });

  test("that are not valid JSON are all reported with their numbers", async () => {
    const path = await write("m.jsonl", `${line()}\n\n{"site":\n${line()}\nhello\n`);
    const seen: Entry[] = [];
    await expect(async () => {
      for await (const one of readManifest(path, config)) seen.push(one);
    }).rejects.toThrow(/line 3: it is not valid JSON.*\n.*line 5: it is not valid JSON/);
    expect(seen).toEqual([entry]);
  });

  test("of a truncated file are refused at the cut", async () => {
    expect(await refuse("m.jsonl", `${line()}\n${line().slice(0, -9)}`)).toContain("line 2: it is");
  });

  test.for([
    [{ url: undefined }, "url: Invalid input"],
    [{ more: 1 }, 'Unrecognized key: "more"'],
    [{ site: "c" }, 'site: there is no site "c" in the configuration, which has a, b'],
    [{ site: "constructor" }, 'site: there is no site "constructor"'],
    [{ site: "../x" }, "site: must be 1 to 63 letters"],
    [{ document: "" }, "document: must not be empty"],
    [{ document: "\u001B[2J" }, "document: must not hold control characters"],
    [{ document: "x".repeat(201) }, "document: must have at most 200 characters"],
    [{ sha256: "A".repeat(64) }, "sha256: must be 64 hexadecimal digits"],
  ])("whose entry has %j are refused for that", async ([more, why]) => {
    expect(await refuse("m.jsonl", `${line()}\n${line(more as object)}`)).toContain(
      `line 2: ${why as string}`,
    );
  });

  test.for(["[]", "5", "null", '"text"'])("that are %s are not entries", async (text) => {
    expect(await refuse("m.jsonl", text)).toContain("line 1: Invalid input: expected object");
  });

  test("cannot change a prototype", async () => {
    for (const key of ["__proto__", "constructor"]) {
      const text = line().replace("{", `{"${key}":{"polluted":true},`);
      expect(await refuse("m.jsonl", text)).toContain(`Unrecognized key: "${key}"`);
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("that are too long are refused, and later lines are still checked", async () => {
    const message = await refuse("m.jsonl", `${line({ url: "x".repeat(65_536) })}\n{}\n`);
    expect(message).toContain("line 1: it is longer than the 65536 bytes of an entry");
    expect(message).toContain("line 2:");
  });

  test("that are not UTF-8 are refused", async () => {
    const text = Buffer.from(line({ document: "M\u00fcller" }), "latin1");
    expect(await refuse("m.jsonl", text)).toContain("line 1: it is not UTF-8");
  });

  test("of another type of file are reported at most twenty times, each briefly", async () => {
    const keys = Array.from({ length: 5_000 }, (_, at) => `"k${at}":1`).join(",");
    const message = await refuse("m.jsonl", `{${keys}}\n`.repeat(50));
    expect(message.match(/line \d+/g)?.length).toBe(20);
    expect(message).toContain("possibly more");
    expect(message.length).toBeLessThan(10_000);
  });
});

describe("CSV", () => {
  const row = "a,d-1,cv,v2.0,/1.pdf,";

  test("rows are entries, with empty fields left out", async () => {
    expect(await readText("m.csv", `${HEADER}\n${row}\n`)).toEqual([entry]);
  });

  test.for([
    ["without a last line end", `${HEADER}\n${row}`],
    ["with a byte order mark", `\uFEFF${HEADER}\n${row}\n`],
    ["with the line ends of Windows", `${HEADER}\r\n${row}\r\n\r\n`],
    ["with quotes", `${HEADER}\n"a","d-1",cv,"v2.0","/1.pdf",\n`],
  ])("rows %s are the same", async ([, text]) => {
    expect(await readText("m.CSV", text as string)).toEqual([entry]);
  });

  test("rows with a field too few or too many are reported with their lines", async () => {
    const message = await refuse("m.csv", `${HEADER}\n${row}\na,d-1,cv\n\n${row}9,9\n${row}`);
    expect(message).toMatch(/line 3: Invalid Record Length/);
    expect(message).toMatch(/line 5: Invalid Record Length/);
    expect(message).not.toMatch(/line [1246]/);
  });

  test("with an unclosed quote is reported with its line, after earlier problems", async () => {
    const message = await refuse("m.csv", `${HEADER}\nc,d,cv,v2.0,/,\n${row}\n"a,d\n${row}\n`);
    expect(message).toMatch(/line 2: site: there is no site "c"[^]*line \d: Quote Not Closed/);
  });

  test.for([
    ["site,document,type,schemaVersion,url,__proto__", 'there is no field "__proto__"'],
    ["site;document;type", 'there is no field "site;document;type"; an entry has site, document'],
    ["site,document,type,schemaVersion,url,site", "the column site is repeated"],
  ])("under the header %s is refused", async ([header, why]) => {
    expect(await refuse("m.csv", `${header}\n${row}b\n`)).toContain(`line 1: ${why}`);
  });

  test("that is not UTF-8 is refused", async () => {
    const text = Buffer.from(`${HEADER}\na,M\u00fcller,cv,v2.0,/1.pdf,\n`, "latin1");
    expect(await refuse("m.csv", text)).toContain("line 2: it is not UTF-8");
  });

  test("with a line that is too long is refused", async () => {
    const text = `${HEADER}\n${row}\n"${"x".repeat(70_000)}",${row}\n`;
    expect(await refuse("m.csv", text)).toMatch(/line 3: Max Record Size/);
  });
});

test.for(["m.jsonl", "m.csv"])("an empty %s has no entries", async (name) => {
  for (const text of ["", "\n\n", "\uFEFF"]) {
    expect(await refuse(name, text)).toContain("it has no entries");
  }
});

test.for(["gone.jsonl", "gone.csv"])("%s that is missing is reported", async (name) => {
  await expect(read(join(tmpdir(), "sluice-nowhere", name))).rejects.toMatchObject({
    code: "BAD_MANIFEST",
    message: expect.stringMatching(/cannot be read: ENOENT/) as string,
  });
});

/** A separate process, because the peak of this one includes other tests. */
async function measureRefusal(path: string): Promise<{ message: string; grownBytes: number }> {
  // The peak from getrusage would be at least that of this process, from which it was forked.
  const script = `
    import { readFileSync } from "node:fs";
    const peak = () => Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
    import { checkConfig } from ${JSON.stringify(import.meta.resolve("./config.ts"))};
    import { readManifest } from ${JSON.stringify(import.meta.resolve("./manifest.ts"))};
    const config = checkConfig({ sites: {} }, "");
    const before = peak();
    const error = await Array.fromAsync(readManifest(process.argv[1], config)).catch((thrown) => thrown);
    const grownBytes = (peak() - before) * 1024;
    console.log(JSON.stringify({ message: error.message, grownBytes }));`;
  const args = ["--input-type=module", "--eval", script, path];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as { message: string; grownBytes: number };
}

test.for([
  ["m.jsonl", "line 1: it is longer than"],
  ["m.csv", "line 1: Max Record Size"],
])(
  "a %s of a gigabyte without a line end is refused without being read completely",
  async ([name, why]) => {
    const path = await write(name as string, "");
    // It consists of a gigabyte of NUL and takes no space on the disk.
    const file = await open(path, "r+");
    await file.truncate(1_024 * MIB);
    await file.close();
    const { message, grownBytes } = await measureRefusal(path);
    expect(message).toContain(why);
    expect(grownBytes).toBeLessThan(50 * MIB);
  },
);
