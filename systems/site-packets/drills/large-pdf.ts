/** A PDF of one page with this many bytes, most of them in an attachment that is not unpacked. */
import { randomFillSync } from "node:crypto";
import { PdfWriter } from "../portals/pdf-writer.ts";

export function writeLargePdf(bytes: number): Buffer {
  const file = new PdfWriter();
  const font = file.addObject("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>");
  const text = "BT /F1 11 Tf 72 700 Td (A page of a packet that is mostly its attachment.) Tj ET";
  file.addPage(file.addCompressedStream(Buffer.from(text)), `/Font<</F1 ${font} 0 R>>`);
  // Random bytes without a word that a reader could take for the end of the stream.
  const noise = randomFillSync(Buffer.alloc(Math.ceil(bytes / 2)));
  file.addStream(Buffer.from(noise.toString("hex"), "latin1"), "/Type/EmbeddedFile");
  return file.finish();
}
