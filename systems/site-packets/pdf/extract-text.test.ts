/**
 * The text of a PDF is that of its pages. A PDF that cannot be read within limits fails
 * permanently.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { PDFiumLibrary } from "@hyzyla/pdfium";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { BadPdfError } from "./bad-pdf.ts";
import { type DocumentKind, planCorpus, renderDocument, renderText } from "../portals/corpus.ts";
import { PdfWriter } from "../portals/pdf-writer.ts";
import { writeTextPdf } from "../portals/text-pdf.ts";
import { type ExtractRequest, extractText } from "./extract-text.ts";
import { countCharacters } from "./page-text.ts";
import { withPdf } from "./open-pdf.ts";

const MIB = 1_048_576;
const plan = planCorpus({ seed: 5, sites: 2, documents: 30 });
const ofKind = (kind: DocumentKind) => plan.find((document) => document.kind === kind)!;

async function extract(bytes: Uint8Array, limits: Partial<ExtractRequest> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "sluice-extract-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [path, target] = [join(folder, "f.pdf"), join(folder, "f.txt")];
  await writeFile(path, bytes);
  const all = { path, target, pagesMax: 500, streamBytesMax: 128 * MIB, charactersMax: 1_000_000 };
  const found = await extractText({ ...all, ...limits });
  return { ...found, text: await readFile(target, "utf8") };
}

async function refuse(
  bytes: Uint8Array,
  limits: Partial<ExtractRequest> = {},
): Promise<BadPdfError> {
  const error: unknown = await extract(bytes, limits).then(
    () => new Error("the PDF was expected to be refused"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(BadPdfError);
  return error as BadPdfError;
}

const listWords = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

describe("a PDF that can be read", () => {
  test("returns the words of its source, page by page", async () => {
    const document = ofKind("text");
    const pages = renderText(document);
    const found = await extract(await renderDocument(document));
    const texts = found.text.split("\f");
    expect(texts.pop()).toBe("");
    expect(texts.map(listWords)).toEqual(pages.map(listWords));
    expect(found.pages).toBe(pages.length);
    expect(found.characters).toBe(countCharacters(pages.join("")));
  });

  test("of pictures has pages and no characters", async () => {
    const scan = ofKind("scan");
    expect(await extract(await renderDocument(scan))).toEqual({
      pages: scan.pages,
      characters: 0,
      text: "\f".repeat(scan.pages),
    });
  });

  test("may have 10,000 streams, and rubbish at its beginning and end", async () => {
    const file = new PdfWriter();
    for (let nth = 0; nth < 10_000; nth++) file.addCompressedStream(Buffer.from(`${nth}`));
    file.addPage(file.addCompressedStream(Buffer.from("")), "");
    expect(await extract(file.finish())).toMatchObject({ pages: 1, characters: 0 });
    const pdf = Buffer.concat([writeTextPdf(["hello"]), Buffer.alloc(100, 0x20)]);
    expect((await extract(pdf)).text).toBe("hello\f");
  });

  test("with exactly the maximum of pages and characters is accepted", async () => {
    const pdf = writeTextPdf(["two words", "three"]);
    expect(await extract(pdf, { pagesMax: 2, charactersMax: 13 })).toMatchObject({
      characters: 13,
    });
    expect(await refuse(pdf, { pagesMax: 1 })).toMatchObject({ code: "TOO_LARGE" });
    expect(await refuse(pdf, { charactersMax: 12 })).toMatchObject({ code: "TOO_LARGE" });
  });
});

describe("refuses", () => {
  test.for<[DocumentKind, string]>([
    ["encrypted", "ENCRYPTED"],
    ["truncated", "PARSER_FAILURE"],
    ["empty", "EMPTY"],
    ["wrong-type", "WRONG_TYPE"],
    ["bomb", "TOO_LARGE"],
  ])("a document that is %s, as %s", async ([kind, code]) => {
    expect(await refuse(await renderDocument(ofKind(kind)))).toMatchObject({ code });
  });

  const pdf = writeTextPdf(["hello"]).toString("latin1");
  test.for([
    ["that is rubbish between its header and its end", `%PDF-1.7\n${"rubbish ".repeat(99)}\n%%EOF`],
    ["without pages", pdf.replace(/Kids\[.*?\]\/Count 1/, "Kids[]/Count 0")],
    ["whose page is not there", pdf.replace(/Kids\[.*?\]/, "Kids[99 0 R]")],
  ])("a PDF %s, as PARSER_FAILURE", async ([, text]) => {
    const error = await refuse(Buffer.from(text as string, "latin1"));
    expect(error).toMatchObject({ code: "PARSER_FAILURE" });
  });
});

test("a crashed reader is not used again", async () => {
  const init = vi.spyOn(PDFiumLibrary, "init");
  const crash = Object.assign(new Error("unreachable"), { name: "RuntimeError" });
  const pdf = writeTextPdf(["hello"]);
  const folder = await mkdtemp(join(tmpdir(), "sluice-crash-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "f.pdf");
  await writeFile(path, pdf);
  const crashed = withPdf(path, () => Promise.reject(crash));
  await expect(crashed).rejects.toMatchObject({ code: "PARSER_FAILURE", cause: crash });
  init.mockClear();
  expect((await extract(pdf)).text).toBe("hello\f");
  expect(init).toHaveBeenCalledTimes(1);
});

test("reading 200 pages again and again does not make the process grow", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-extract-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "f.pdf");
  await writeFile(path, await renderDocument({ ...ofKind("text"), pages: 200 }));
  // The peak from getrusage would be at least that of this process, from which it was forked.
  const script = `
    import { readFileSync } from "node:fs";
    const peak = () => Number(/VmHWM:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
    import { extractText } from ${JSON.stringify(import.meta.resolve("./extract-text.ts"))};
    const request = { path: process.argv[1], target: process.argv[1] + ".txt", pagesMax: 500, streamBytesMax: 2 ** 27, charactersMax: 1e7 };
    const read = async (times) => { for (let nth = 0; nth < times; nth++) await extractText(request); };
    await read(3);
    const before = peak();
    await read(6);
    console.log((peak() - before) * 1024);`;
  const args = ["--input-type=module", "--eval", script, path];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  // It grew by at most 3 MB; by 6 with each document while pages stayed open.
  expect(Number(stdout)).toBeLessThan(20 * MIB);
});
