/**
 * Scans that are as large as real ones and quickly read: every page has its own image, A4 at 200
 * dpi, with a few words on it and the grain of paper, and the file contains no text.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { PDFiumLibrary } from "@hyzyla/pdfium";
import {
  PAGE_HEIGHT_PT,
  PAGE_WIDTH_PT,
  PdfWriter,
} from "../../../systems/site-packets/portals/pdf-writer.ts";
import { ChanceSequence } from "../../../systems/site-packets/portals/seeded-chance.ts";
import { writeTextPdf } from "../../../systems/site-packets/portals/text-pdf.ts";

/** The words on the pages. Few images are made, and many copies of them. */
const PAGE_TEXTS = [
  "Consent form signed by the subject",
  "Approval of the ethics committee",
  "Laboratory certificate renewed",
  "Visit seven took place as planned",
  "Curriculum vitae of the investigator",
] as const;
const SCALE = 200 / 72;
/**
 * Share of all pixels. With it an image of 3.9 million pixels has about 90 kB, so that 200 pages
 * are a little less than an ingest takes by default (20 MiB); white paper alone would be 10 kB.
 */
const GRAIN_SHARE = 0.012;
const GRAIN_SHADE = 0xf0;

interface PackedImage {
  readonly width: number;
  readonly height: number;
  readonly packed: Buffer;
}

/** No two files are the same. Returns the size of the largest in bytes. */
export async function writeScans(
  folder: string,
  documents: number,
  pages: number,
): Promise<number> {
  const images = await drawImages();
  let bytesMost = 0;
  for (let document = 0; document < documents; document++) {
    const file = new PdfWriter();
    for (let page = 0; page < pages; page++) {
      const image = images[(document + page) % images.length] as PackedImage;
      addScannedPage(file, image, `${document + 1}-${page + 1}`);
    }
    const bytes = file.finish();
    writeFileSync(join(folder, `scan-${document + 1}.pdf`), bytes);
    bytesMost = Math.max(bytesMost, bytes.length);
  }
  return bytesMost;
}

/** `name` is not visible: it makes the page's bytes unique. */
function addScannedPage(file: PdfWriter, image: PackedImage, name: string): void {
  const { width, height, packed } = image;
  const shown = file.addStream(
    packed,
    `/Type/XObject/Subtype/Image/Width ${width}/Height ${height}` +
      "/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode",
  );
  const content = `% ${name}\nq ${PAGE_WIDTH_PT} 0 0 ${PAGE_HEIGHT_PT} 0 0 cm /Scan Do Q`;
  file.addPage(file.addCompressedStream(Buffer.from(content)), `/XObject<</Scan ${shown} 0 R>>`);
}

async function drawImages(): Promise<readonly PackedImage[]> {
  const library = await PDFiumLibrary.init();
  try {
    const document = await library.loadDocument(writeTextPdf(PAGE_TEXTS));
    try {
      const images: PackedImage[] = [];
      for (const page of document.pages()) {
        const drawn = await page.render({ scale: SCALE, colorSpace: "Gray", render: "bitmap" });
        addGrain(drawn.data, new ChanceSequence(1, "grain", images.length));
        const { width, height } = drawn;
        images.push({ width, height, packed: deflateSync(drawn.data) });
      }
      return images;
    } finally {
      document.destroy();
    }
  } finally {
    library.destroy();
  }
}

/** Only the paper has grain: letters stay unchanged. */
function addGrain(pixels: Uint8Array, chance: ChanceSequence): void {
  const grains = Math.floor(pixels.length * GRAIN_SHARE);
  for (let grain = 0; grain < grains; grain++) {
    const at = chance.pickNumber(0, pixels.length - 1);
    pixels[at] = Math.min(pixels[at] ?? GRAIN_SHADE, GRAIN_SHADE);
  }
}
