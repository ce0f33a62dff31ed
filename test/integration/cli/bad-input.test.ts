/** Bad input is reported with its line and does not affect the other items. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

interface Letter {
  readonly item: number;
  readonly code: string;
  readonly message: string;
}

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

/** Runs lines of which some are bad: exit 3, the others succeed. Returns the dead letters. */
async function runBad(content: string | Uint8Array, good: number): Promise<Letter[]> {
  work.write("items.jsonl", content);
  const { code, view } = await work.runJson(...RUN);
  const dead = await work.run("dead", view.batch, "--json");
  const letters = readLines<Letter>(dead.stdout);
  expect(view).toMatchObject({ succeeded: good, failed: letters.length, pending: 0 });
  expect(code).toBe(letters.length === 0 ? 0 : 3);
  return letters;
}

test("with --strict the malformed line 50,001 refuses the batch with its line number, and nothing runs", async () => {
  work.writePipeline(`process: () => appendFileSync("ran.txt", "x")`);
  const lines = Array.from({ length: 60_000 }, (_, n) => `{"id":"i${n}"}`);
  lines[50_000] = '{"id": "i50000"';
  work.write("items.jsonl", `${lines.join("\n")}\n`);
  const { code, view } = await work.runJson(...RUN, "--strict");
  expect(code).toBe(1);
  expect(view).toMatchObject({
    state: "failed",
    succeeded: 0,
    failed: 0,
    reason: { code: "BAD_ITEMS" },
  });
  expect(view.reason?.message).toMatch(/items\.jsonl, line 50001, column 16: not JSON/);
  expect(() => work.read("ran.txt")).toThrow();
  const { stdout } = await work.run(...RUN, "--strict");
  expect(stdout).toContain("line 50001");
  expect(stdout).toContain("run without --strict");
});

test("without --strict the malformed line is one failed item, and `dead` shows its number", async () => {
  work.writePipeline("chunkSize: 1000, process: () => {}");
  const lines = Array.from({ length: 60_000 }, (_, n) => `{"id":"i${n}"}`);
  lines[50_000] = '{"id": "i50000"';
  const letters = await runBad(`${lines.join("\n")}\n`, 59_999);
  expect(letters).toMatchObject([
    {
      item: 50_000,
      code: "MALFORMED_LINE",
      message: expect.stringContaining("line 50001, column 16"),
    },
  ]);
});

test("a truncated last line fails alone and is reported as truncated", async () => {
  work.writePipeline();
  const [letter] = await runBad('{"id":"a"}\n{"id":"b"}\n{"id":"c', 2);
  expect(letter).toMatchObject({ item: 2, code: "MALFORMED_LINE" });
  expect(letter?.message).toMatch(/line 3.*the file may be cut off/);
});

test("a UTF-8 mark, CRLF, blank lines and a missing last line end are no errors", async () => {
  work.writePipeline();
  expect(await runBad('\ufeff{"id":"a"}\r\n\r\n{"id":"b"}\n  \n{"id":"ü"}', 3)).toEqual([]);
});

test("a line that is not UTF-8 fails alone, and so does one with a NUL byte", async () => {
  work.writePipeline();
  const bytes = Buffer.concat([
    Buffer.from('{"id":"a"}\n{"id":"'),
    Buffer.from([0xff, 0xfe]),
    Buffer.from('"}\n{"id":"c\0"}\n{"id":"d"}\n'),
  ]);
  expect(await runBad(bytes, 2)).toMatchObject([
    { item: 1, code: "INVALID_UTF8", message: expect.stringContaining("line 2") },
    { item: 2, code: "NUL_BYTE", message: expect.stringContaining("line 3") },
  ]);
});

test("an item with a prototype-polluting key fails alone", async () => {
  work.writePipeline(`process: () => {
    if ({}.polluted) throw new Error("polluted");
  }`);
  const letters = await runBad('{"id":"a","__proto__":{"polluted":true}}\n{"id":"b"}\n', 1);
  expect(letters).toMatchObject([
    { item: 0, code: "FORBIDDEN_KEY", message: expect.stringContaining("__proto__") },
  ]);
});

test("a line that is too long is not loaded and fails alone", async () => {
  work.writePipeline("process: () => {}");
  const letters = await runBad(`{"id":"a"}\n{"id":"${"x".repeat(2 << 20)}"}\n{"id":"c"}\n`, 2);
  expect(letters).toMatchObject([{ item: 1, message: expect.stringContaining("line 2") }]);
});

test("an item that does not match the schema fails alone, and its error names the field", async () => {
  work.write(
    "node_modules/tiny-schema/index.js",
    `exports.contact = { "~standard": { version: 1, vendor: "tiny", validate: (value) =>
       typeof value?.email === "string" ? { value } : { issues: [{ message: "is missing", path: ["email"] }] } } };`,
  );
  work.write(
    "pipeline.ts",
    `import { definePipeline, jsonl } from "sluice";
     import { contact } from "tiny-schema";
     export default definePipeline({
       name: "contacts", item: contact, source: ({ input }: any) => jsonl(input), process: () => {},
     });`,
  );
  const letters = await runBad('{"email":"a@b"}\n{"mail":"a@b"}\n', 1);
  expect(letters).toMatchObject([
    { item: 1, code: "INVALID_ITEM", message: expect.stringContaining("email: is missing") },
  ]);
});

test("a duplicate key refuses the batch when keys must be unique, and nothing runs", async () => {
  work.writePipeline(`uniqueKeys: true, process: () => appendFileSync("ran.txt", "x")`);
  work.write("items.jsonl", '{"id":"a"}\n{"id":"b"}\n{"id":"a"}\n');
  const { code, view } = await work.runJson(...RUN);
  expect(code).toBe(1);
  expect(view).toMatchObject({ state: "failed", reason: { code: "DUPLICATE_KEY" } });
  expect(view.reason?.message).toMatch(/the key "a" is repeated: items 0 and 2/);
  expect(() => work.read("ran.txt")).toThrow();
});

test("a folder or an unreadable file is refused with a hint", async () => {
  work.writePipeline();
  const { code, view } = await work.runJson("run", "pipeline.ts", "--input", ".");
  expect(code).toBe(1);
  expect(view.reason).toMatchObject({ code: "SOURCE_UNREADABLE" });
  expect(view.reason?.message).toContain("is a folder, not a file");
});
