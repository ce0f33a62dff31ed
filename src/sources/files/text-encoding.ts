/**
 * Checks the first bytes of a file: a UTF-8 mark is skipped; marks of formats that are often passed
 * by mistake (UTF-16, gzip, a spreadsheet) are refused at once, because a million failed items
 * would hide the single cause.
 */
import type { FileHandle } from "node:fs/promises";
import { SluiceError } from "../../core/base/errors.ts";
import { readFully } from "./source-file.ts";

const UTF8_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

const FOREIGN: readonly { readonly mark: Buffer; readonly what: string; readonly hint: string }[] =
  [
    {
      mark: Buffer.from([0xff, 0xfe]),
      what: "UTF-16 text",
      hint: "Save it as UTF-8, for example with: iconv -f UTF-16 -t UTF-8.",
    },
    {
      mark: Buffer.from([0xfe, 0xff]),
      what: "UTF-16 text",
      hint: "Save it as UTF-8, for example with: iconv -f UTF-16 -t UTF-8.",
    },
    {
      mark: Buffer.from([0x1f, 0x8b]),
      what: "compressed with gzip",
      hint: "Unpack it first, for example with: gunzip --keep.",
    },
    {
      mark: Buffer.from([0x50, 0x4b, 0x03, 0x04]),
      what: "a ZIP archive or a spreadsheet",
      hint: "Unpack it, or export the sheet as CSV in UTF-8.",
    },
  ];

const MARK_BYTES_MAX = 4;

/** How many bytes of a UTF-8 mark to skip: 0 or 3. */
export async function skipMark(path: string, handle: FileHandle): Promise<number> {
  const buffer = Buffer.alloc(MARK_BYTES_MAX);
  const head = buffer.subarray(0, await readFully(path, handle, buffer, 0));
  for (const { mark, what, hint } of FOREIGN) {
    if (startsWith(head, mark)) {
      throw new SluiceError("SOURCE_UNREADABLE", `${path} is ${what}, not UTF-8 text`, { hint });
    }
  }
  return markBytesOf(head);
}

/** The same for the first bytes of a file that was already accepted. */
export function markBytesOf(head: Buffer): number {
  return startsWith(head, UTF8_MARK) ? UTF8_MARK.length : 0;
}

function startsWith(bytes: Buffer, mark: Buffer): boolean {
  return bytes.length >= mark.length && bytes.subarray(0, mark.length).equals(mark);
}
