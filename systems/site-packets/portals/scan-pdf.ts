/**
 * Scans: each page is a picture of its text, slightly rotated and with some dust, and there is no
 * text in the file. 200 dpi in 16 shades of grey is typical of an office scanner, and OCR reads it
 * well.
 */
import { PDFiumLibrary, type PDFiumPageRender } from "@hyzyla/pdfium";
import { PAGE_HEIGHT_PT, PAGE_WIDTH_PT, PdfWriter } from "./pdf-writer.ts";
import { ChanceSequence } from "./seeded-chance.ts";
import { writeTextPdf } from "./text-pdf.ts";

const SCAN_DPI = 200;
const POINTS_PER_INCH = 72;
const WHITE = 255;
/** The shift for each line of pixels: a third of a degree, as from a feeder. */
const SKEW_MAX = 0.006;
/** Share of all pixels: one grain of dust for about each square centimetre. */
const DUST_SHARE = 0.0002;
/** Drops the four lower bits: the file is a third as large, and no letter looks different. */
const SHADES_MASK = 0xf0;

export async function writeScanPdf(pages: readonly string[], seed: number): Promise<Buffer> {
  const file = new PdfWriter();
  for (const [number, image] of (await drawPages(pages)).entries()) {
    const chance = new ChanceSequence(seed, "scan", number);
    const { width, height } = image;
    const shown = file.addCompressedStream(
      scatterDust(tilt(image, chance), chance),
      `/Type/XObject/Subtype/Image/Width ${width}/Height ${height}` +
        "/ColorSpace/DeviceGray/BitsPerComponent 8",
    );
    const content = `q ${PAGE_WIDTH_PT} 0 0 ${PAGE_HEIGHT_PT} 0 0 cm /Scan Do Q`;
    file.addPage(file.addCompressedStream(Buffer.from(content)), `/XObject<</Scan ${shown} 0 R>>`);
  }
  return file.finish();
}

/** One byte for each pixel, row after row. */
async function drawPages(pages: readonly string[]): Promise<PDFiumPageRender[]> {
  const library = await PDFiumLibrary.init();
  try {
    const document = await library.loadDocument(writeTextPdf(pages));
    try {
      const images: PDFiumPageRender[] = [];
      for (const page of document.pages()) {
        const scale = SCAN_DPI / POINTS_PER_INCH;
        images.push(await page.render({ scale, colorSpace: "Gray", render: "bitmap" }));
      }
      return images;
    } finally {
      document.destroy();
    }
  } finally {
    library.destroy();
  }
}

/** Rows move sideways and columns up or down, both by the same angle: a small turn. */
function tilt({ data, width, height }: PDFiumPageRender, chance: ChanceSequence): PDFiumPageRender {
  const skew = (chance.next() * 2 - 1) * SKEW_MAX;
  const tilted = Buffer.alloc(width * height, WHITE);
  for (let y = 0; y < height; y++) {
    const shift = Math.round((y - height / 2) * skew);
    for (let x = 0; x < width; x++) {
      const fromX = x + shift;
      const fromY = y - Math.round((x - width / 2) * skew);
      if (fromX < 0 || fromX >= width || fromY < 0 || fromY >= height) continue;
      tilted[y * width + x] = data[fromY * width + fromX] ?? WHITE;
    }
  }
  return { data: tilted, width, height, originalWidth: width, originalHeight: height };
}

function scatterDust({ data }: PDFiumPageRender, chance: ChanceSequence): Uint8Array {
  const grains = Math.floor(data.length * DUST_SHARE);
  for (let grain = 0; grain < grains; grain++) {
    data[chance.pickNumber(0, data.length - 1)] = chance.pickNumber(0, WHITE);
  }
  return data.map((shade) => (shade === WHITE ? WHITE : shade & SHADES_MASK));
}
