/** The bytes of a document: the same every time, and for a copy those of its original. */
import { unreachable } from "./unreachable.ts";
import { writeBombPdf } from "./bomb-pdf.ts";
import { writeEncryptedPdf } from "./encrypted-pdf.ts";
import { writeOtherFile } from "./other-files.ts";
import { renderText, type TextSource } from "./render-text.ts";
import { writeScanPdf } from "./scan-pdf.ts";
import { writeTextPdf } from "./text-pdf.ts";

/** The password of an encrypted document. The ingest never gets it. */
export const DOCUMENT_PASSWORD = "only-the-site-knows";
/** The share of a truncated document that is left. */
const TRUNCATED_SHARE = 0.6;
/** The beginning of a document that is too large: it looks like a PDF that does not end. */
const TOO_LARGE_HEAD = Buffer.from("%PDF-1.7\n");

/** Only the first bytes of `too-large`: the rest should never be in memory (`prepare.ts`). */
export async function renderDocument(document: TextSource): Promise<Uint8Array> {
  const { kind, contentSeed } = document;
  switch (kind) {
    case "text":
    case "same-again":
    case "same-under-other-id":
    case "old-schema":
    case "unknown-type":
    case "wrong-checksum":
    case "never-found":
    case "never-answers":
    case "never-whole":
      return writeTextPdf(renderText(document));
    case "scan":
      return writeScanPdf(renderText(document), contentSeed);
    case "encrypted":
      return writeEncryptedPdf(renderText(document), DOCUMENT_PASSWORD);
    case "truncated": {
      const whole = writeTextPdf(renderText(document));
      return whole.subarray(0, Math.floor(whole.length * TRUNCATED_SHARE));
    }
    case "empty":
      return new Uint8Array();
    case "wrong-type":
      return writeOtherFile(contentSeed);
    case "bomb":
      return writeBombPdf();
    case "too-large":
      return TOO_LARGE_HEAD;
    default:
      return unreachable(kind);
  }
}
