/** Whether a file is a PDF, by its content alone. */
import { describe, expect, test } from "vitest";
import { BadPdfError } from "./bad-pdf.ts";
import { writeOtherFile } from "../portals/other-files.ts";
import { checkPdfFile } from "./pdf-file.ts";

const pdf = Buffer.from("%PDF-1.7\nsomething\n%%EOF\n");

const check = (...parts: readonly (Buffer | string)[]): Promise<void> =>
  checkPdfFile(Buffer.concat(parts.map((part) => Buffer.from(part))));

test("a PDF can have a little rubbish before its header and after its end", async () => {
  await check(pdf);
  await check("x".repeat(1_019), pdf);
  await check(pdf, "x".repeat(2_042));
});

test("a header or an end that is far away does not count", async () => {
  await expect(check("x".repeat(1_020), pdf)).rejects.toMatchObject({ code: "WRONG_TYPE" });
  await expect(check(pdf, "x".repeat(2_048))).rejects.toMatchObject({ code: "PARSER_FAILURE" });
});

describe("refuses", () => {
  test.for<[string, Buffer | string, string, RegExp]>([
    ["nothing", "", "EMPTY", /is empty/],
    ["a web page", writeOtherFile(0), "WRONG_TYPE", /is text\/html and not a PDF/],
    ["a web page in capitals", "\r\n <HTML>", "WRONG_TYPE", /is text\/html/],
    ["a picture", writeOtherFile(1), "WRONG_TYPE", /is image\/png/],
    ["an archive", writeOtherFile(2), "WRONG_TYPE", /is application\/zip/],
    ["an archive that was cut", writeOtherFile(2).subarray(0, 20), "WRONG_TYPE", /and not a PDF/],
    ["a text", "hello", "WRONG_TYPE", /is unknown/],
    ["one byte", "%", "WRONG_TYPE", /is unknown/],
    ["a PDF that was cut", "%PDF-1.7\n1 0 obj", "PARSER_FAILURE", /%%EOF is missing/],
  ])("%s", async ([, bytes, code, why]) => {
    const error: unknown = await check(bytes).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BadPdfError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(why) as string });
  });
});

test("any other beginning fails permanently and is never retried", async () => {
  const heads = [
    "PK\u0003\u0004",
    "GIF89a",
    "RIFF",
    "ID3\u0004",
    "Rar!\u001A\u0007",
    "\u001F\u008B",
    "<?xml",
    "MZ",
    "0&²uŽfÏ",
    "OggS",
    "ftypmp42",
    "\u001AE\u00DF\u00A3",
    "II*\u0000",
    "\u0089PNG\r\n\u001A\n",
  ];
  for (const head of heads) {
    for (const fill of [0x00, 0x20, 0xff]) {
      const bytes = Buffer.alloc(5_000, fill);
      bytes.write(head, "latin1");
      await expect(checkPdfFile(bytes)).rejects.toMatchObject({ code: "WRONG_TYPE" });
    }
  }
});
