/**
 * A task of the pool: draws one page of a PDF and reads it with Tesseract. One page per task, so
 * that the time limit holds for a page, and a document of many pages shares the pool with others.
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { PDFiumDocument } from "@hyzyla/pdfium";
import { openPage, withPdf } from "./open-pdf.ts";

export interface OcrRequest {
  readonly path: string;
  /** From 0 on. */
  readonly page: number;
}

/** Tesseract was trained for 300; at 200 it reads clean print as well, in half the time. */
const DPI = 200;
const POINTS_PER_INCH = 72;
/** A larger page is drawn smaller: A3 at 200 dpi has 7.7 million. */
const PIXELS_MAX = 16_000_000;
/** For a longer side Tesseract reports that the image is too large, and returns no text. */
const SIDE_PIXELS_MAX = 32_767;

export async function readPage({ path, page }: OcrRequest): Promise<string> {
  const image = await withPdf(path, (pdf) => drawPage(pdf, page));
  const tesseract = await (reader ??= loadTesseract());
  return tesseract.read(image);
}

interface Image {
  readonly width: number;
  readonly height: number;
  /** A byte a pixel, in grey. */
  readonly pixels: Uint8Array;
}

async function drawPage(pdf: PDFiumDocument, number: number): Promise<Image> {
  const page = openPage(pdf, number);
  const { originalWidth, originalHeight } = page.getOriginalSize();
  const scale = Math.min(
    DPI / POINTS_PER_INCH,
    Math.sqrt(PIXELS_MAX / Math.max(1, originalWidth * originalHeight)),
    SIDE_PIXELS_MAX / Math.max(1, originalWidth, originalHeight),
  );
  // A page may be thinner than a pixel.
  const width = Math.max(1, Math.floor(originalWidth * scale));
  const height = Math.max(1, Math.floor(originalHeight * scale));
  // Drawing closes the page.
  const drawn = await page.render({ width, height, colorSpace: "Gray", render: "bitmap" });
  return { width: drawn.width, height: drawn.height, pixels: drawn.data };
}

/** The part of tesseract.js-core that is used: it has no types. */
interface TesseractModule {
  readonly FS: {
    /** `canOwn`: the file system may keep these bytes without a copy. */
    writeFile(path: string, bytes: Uint8Array, options?: { readonly canOwn: boolean }): void;
    unlink(path: string): void;
  };
  readonly TessBaseAPI: new () => {
    Init(dataPath: null, language: string, mode: number): number;
    SetVariable(name: string, value: string): boolean;
    SetImageFile(orientation: number, angle: number): number;
    Recognize(monitor: null): number;
    GetUTF8Text(): string;
    Clear(): void;
  };
}

interface Tesseract {
  read(image: Image): string;
}

let reader: Promise<Tesseract> | null = null;

const LSTM_ONLY = 1;

async function loadTesseract(): Promise<Tesseract> {
  const require = createRequire(import.meta.url);
  const load = require("tesseract.js-core/tesseract-core-simd-lstm") as (
    options: object,
  ) => Promise<TesseractModule>;
  const data = require.resolve("@tesseract.js-data/eng/4.0.0_best_int/eng.traineddata.gz");
  const module = await load({});
  module.FS.writeFile("eng.traineddata", await promisify(gunzip)(await readFile(data)));
  const api = new module.TessBaseAPI();
  if (api.Init(null, "eng", LSTM_ONLY) !== 0) throw new Error("Tesseract could not be started");
  // It has read all of it.
  module.FS.unlink("eng.traineddata");
  api.SetVariable("user_defined_dpi", String(DPI));
  // The same memory is reused for every page.
  let input = Buffer.alloc(0);
  return {
    read: ({ width, height, pixels }) => {
      // A portable grey map: a header and the raw pixels.
      const header = Buffer.from(`P5\n${width} ${height}\n255\n`);
      const bytes = header.length + pixels.length;
      if (input.length !== bytes) input = Buffer.allocUnsafeSlow(bytes);
      input.set(header);
      input.set(pixels, header.length);
      module.FS.writeFile("/input", input, { canOwn: true });
      if (api.SetImageFile(1, 0) !== 0)
        throw new Error("Tesseract could not read the page's image");
      if (api.Recognize(null) !== 0) throw new Error("Tesseract could not read the page");
      const text = api.GetUTF8Text();
      api.Clear();
      return text;
    },
  };
}
