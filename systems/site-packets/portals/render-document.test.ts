/** Each kind of document is what it claims, as its readers see it. */
import { constants, createInflate, inflateSync } from "node:zlib";
import { Readable } from "node:stream";
import { PDFiumLibrary } from "@hyzyla/pdfium";
import { fileTypeFromBuffer } from "file-type";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BOMB_INFLATED_BYTES } from "./bomb-pdf.ts";
import { type DocumentKind, planCorpus, renderDocument, renderText } from "./corpus.ts";
import { writeOtherFile } from "./other-files.ts";
import { DOCUMENT_PASSWORD } from "./render-document.ts";

const GIBIBYTE = 2 ** 30;
const plan = planCorpus({ seed: 3, sites: 3, documents: 30 });

const ofKind = (kind: DocumentKind) => plan.find((document) => document.kind === kind)!;

let library: PDFiumLibrary;
beforeAll(async () => {
  library = await PDFiumLibrary.init();
});
afterAll(() => library.destroy());

/** The text of each page. */
async function readPages(bytes: Uint8Array, password?: string): Promise<string[]> {
  const document = await library.loadDocument(bytes, password);
  try {
    return [...document.pages()].map((page) => page.getText().replaceAll("\r\n", "\n"));
  } finally {
    document.destroy();
  }
}

test("a document has the same bytes every time", async () => {
  for (const document of plan) {
    const once = Buffer.from(await renderDocument(document));
    expect(once.equals(await renderDocument(document)), document.kind).toBe(true);
  }
});

test("a copy has the bytes of its original", async () => {
  for (const kind of ["same-again", "same-under-other-id"] as const) {
    const copy = ofKind(kind);
    const original = await renderDocument(plan[copy.copyOf!]!);
    expect(Buffer.from(original).equals(await renderDocument(copy))).toBe(true);
  }
});

test("two documents of a corpus have different bytes", async () => {
  const texts = plan.filter(({ kind }) => kind === "text");
  const bytes = await Promise.all(texts.map((text) => renderDocument(text)));
  expect(new Set(bytes.map((some) => Buffer.from(some).toString("latin1"))).size).toBe(
    texts.length,
  );
});

describe("a good file", () => {
  test.for([
    "text",
    "same-again",
    "same-under-other-id",
    "old-schema",
    "unknown-type",
    "wrong-checksum",
    "never-found",
  ] as const)("of kind %s has the planned text on every page", async (kind) => {
    const document = ofKind(kind);
    const pages = await readPages(await renderDocument(document));
    expect(pages).toEqual(renderText(document));
    expect(pages.length).toBe(document.pages);
  });

  test("that is a scan has its pages, one picture on each and no text", async () => {
    const scan = ofKind("scan");
    const document = await library.loadDocument(await renderDocument(scan));
    const pages = [...document.pages()];
    expect(pages.length).toBe(scan.pages);
    for (const page of pages) {
      expect(page.getText()).toBe("");
      expect([...page.objects()].map(({ type }) => type)).toEqual(["image"]);
    }
    document.destroy();
  });
});

describe("a bad file", () => {
  test("that is encrypted opens only with its password", async () => {
    const document = ofKind("encrypted");
    const bytes = await renderDocument(document);
    await expect(readPages(bytes)).rejects.toThrow(/password/i);
    const [page] = await readPages(bytes, DOCUMENT_PASSWORD);
    expect(page?.split(/\s+/)).toEqual(renderText(document)[0]?.split(/\s+/));
  });

  test("that is truncated begins as a PDF and cannot be repaired", async () => {
    const bytes = await renderDocument(ofKind("truncated"));
    expect(Buffer.from(bytes.subarray(0, 5)).toString()).toBe("%PDF-");
    await expect(readPages(bytes)).rejects.toThrow(/corrupted/);
  });

  test("that is empty has no bytes", async () => {
    expect((await renderDocument(ofKind("empty"))).length).toBe(0);
  });

  test("of the wrong type is a web page, a picture or an archive", async () => {
    expect(writeOtherFile(0).toString()).toMatch(/^<!DOCTYPE html>/);
    expect((await fileTypeFromBuffer(writeOtherFile(1)))?.mime).toBe("image/png");
    expect((await fileTypeFromBuffer(writeOtherFile(2)))?.mime).toBe("application/zip");
  });

  test("that is too large begins as a PDF", async () => {
    const head = await renderDocument(ofKind("too-large"));
    expect(Buffer.from(head).toString()).toBe("%PDF-1.7\n");
  });
});

describe("the bomb", () => {
  /** The content of its page, still compressed once. */
  async function unwrapOnce(): Promise<Buffer> {
    const bytes = Buffer.from(await renderDocument(ofKind("bomb")));
    const start = bytes.indexOf("stream\n") + "stream\n".length;
    return inflateSync(bytes.subarray(start, bytes.indexOf("\nendstream")));
  }

  test("is a small file with one page that opens", async () => {
    const bytes = await renderDocument(ofKind("bomb"));
    expect(bytes.length).toBeLessThan(100_000);
    const document = await library.loadDocument(bytes);
    expect(document.getPageCount()).toBe(1);
    document.destroy();
  });

  test("inflates to more than a gibibyte", async () => {
    const inflating = Readable.from([await unwrapOnce()]).pipe(
      createInflate({ chunkSize: 2 ** 20, finishFlush: constants.Z_FINISH }),
    );
    let inflatedBytes = 0;
    // To its end, with the checksum: a reader must not notice that it was assembled.
    for await (const piece of inflating) {
      inflatedBytes += (piece as Buffer).length;
      if (inflatedBytes > BOMB_INFLATED_BYTES) break;
    }
    expect(inflatedBytes).toBe(BOMB_INFLATED_BYTES);
    expect(inflatedBytes).toBeGreaterThan(GIBIBYTE);
  });
});
