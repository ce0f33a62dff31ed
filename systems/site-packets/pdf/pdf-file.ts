/**
 * The type of a file, by its content and not by its name: a complete PDF, or the reason why not.
 * This is checked before a parser reads it, because parsers repair broken files and guess missing
 * parts.
 */
import { fileTypeFromBuffer } from "file-type";
import { BadPdfError } from "./bad-pdf.ts";

/**
 * A header may be this far from the start: mail gateways and scanners insert a few lines before it.
 */
const HEADER_WITHIN_BYTES = 1_024;
/** The end may be followed by a little rubbish. */
const END_WITHIN_BYTES = 2_048;
/** The first bytes that identify other types: reading more would unpack archives for nothing. */
const TYPE_WITHIN_BYTES = 4_100;

export async function checkPdfFile(bytes: Buffer): Promise<void> {
  if (bytes.length === 0) throw new BadPdfError("EMPTY", "the file is empty");
  if (!bytes.subarray(0, HEADER_WITHIN_BYTES).includes("%PDF-")) {
    const type = await describeType(bytes);
    throw new BadPdfError("WRONG_TYPE", `the file is ${type} and not a PDF`);
  }
  if (!bytes.subarray(-END_WITHIN_BYTES).includes("%%EOF")) {
    throw new BadPdfError("PARSER_FAILURE", "the file ends before its end: %%EOF is missing");
  }
}

async function describeType(bytes: Buffer): Promise<string> {
  const known = await fileTypeFromBuffer(bytes.subarray(0, TYPE_WITHIN_BYTES));
  if (known !== undefined) return known.mime;
  return /^\s*<(!doctype|html)/i.test(bytes.toString("latin1", 0, 256)) ? "text/html" : "unknown";
}
