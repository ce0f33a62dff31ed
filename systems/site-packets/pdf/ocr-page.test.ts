/** OCR reads a picture of a page, whatever the size of the page. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { planCorpus, renderDocument, renderText } from "../portals/corpus.ts";
import { writeTextPdf } from "../portals/text-pdf.ts";
import { readPage } from "./ocr-page.ts";

async function read(bytes: Uint8Array, page = 0): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-ocr-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "f.pdf");
  await writeFile(path, bytes);
  return readPage({ path, page });
}

const listWords = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

test("OCR reads at least 95 % of the words of a scan", async () => {
  const scan = planCorpus({ seed: 5, sites: 2, documents: 30 }).find(
    ({ kind }) => kind === "scan",
  )!;
  const page = { ...scan, pages: 1 };
  const wanted = listWords(renderText(page)[0] as string);
  const found = new Set(listWords(await read(await renderDocument(page))));
  const share = wanted.filter((word) => found.has(word)).length / wanted.length;
  expect(wanted.length).toBeGreaterThan(50);
  expect(share, `of the scan with the content ${scan.contentSeed}`).toBeGreaterThanOrEqual(0.95);
});

test("OCR reads the second page, not the first", async () => {
  const text = await read(writeTextPdf(["Alpha", "Laboratory"]), 1);
  expect(text.trim()).toBe("Laboratory");
});

const withSize = (box: string): Buffer => {
  const text = writeTextPdf(["hello"]).toString("latin1");
  return Buffer.from(text.replace("MediaBox[0 0 595 842]", `MediaBox[${box}]`), "latin1");
};

test("a page thinner than a pixel, or without a size, has no text", async () => {
  for (const box of ["0 0 0.1 900", "0 0 1000000 1"]) {
    expect((await read(withSize(box))).trim(), box).toBe("");
  }
});

test("a very long page is drawn smaller and read", async () => {
  const text = "Laboratory certificate";
  const pdf = writeTextPdf([text])
    .toString("latin1")
    .replace("[0 0 595 842]", "[0 -13158 595 842]");
  expect((await read(Buffer.from(pdf, "latin1"))).trim()).toBe(text);
});

test("a missing page fails permanently", async () => {
  await expect(read(writeTextPdf(["hello"]), 1)).rejects.toMatchObject({ code: "PARSER_FAILURE" });
});
