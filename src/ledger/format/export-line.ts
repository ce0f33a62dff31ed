/**
 * An export, line by line: text with all of a batch's evidence, that can be verified on its own.
 * Every line is canonical JSON. Its kind follows from the lines before it and from how it begins,
 * so an export is written and read as a stream:
 *
 *   header, keys, then for each record of the chain: its body, the lines of its block if it has
 *   one,
 *   the block's details that are not erased, the signed head that covers it if there is one; and
 *   the end.
 */
import { canonicalize } from "../../core/base/canonical-json.ts";
import { SIGNATURE_DIGITS, type Signed } from "./signing-key.ts";
import { hasMembers, isHex, type JsonObject } from "./strict-json.ts";

export const EXPORT_VERSION = 1;

/** How lines begin that are neither records nor the header. */
export const KEY_LINE = '{"key":';
export const DETAILS_LINE = '{"details":';
export const SIGNED_HEAD_LINE = '{"head":';
export const END_LINE = '{"end":';

export function writeHeaderLine(batch: string): string {
  return canonicalize({ ledger: EXPORT_VERSION, batch });
}

export function writeKeyLine({ body, signature }: Signed): string {
  return canonicalize({ key: body, signature });
}

export function writeSignedHeadLine({ body, signature }: Signed): string {
  return canonicalize({ head: body, signature });
}

export function writeEndLine(records: number, items: number): string {
  return canonicalize({ end: { records, items } });
}

/** The body and signature from the line of a key or a signed head; null if malformed. */
export function readSigned(value: JsonObject, member: "key" | "head"): Signed | null {
  const { [member]: body, signature } = value;
  const isShaped =
    hasMembers(value, [member, "signature"]) &&
    typeof body === "string" &&
    isHex(signature, SIGNATURE_DIGITS);
  return isShaped ? { body, signature } : null;
}

/** A record of a batch as a store keeps it, with its block and signed head. */
export interface ExportedRecord {
  readonly body: string;
  /** The lines of its block, each with its newline, and of its details; null for none. */
  readonly block: { readonly bytes: Uint8Array; readonly details: string } | null;
  /** The signed head whose last record this is. */
  readonly signedHead: Signed | null;
}

/** The whole export, one piece for each record. */
export async function* writeExport(
  batch: string,
  keys: readonly Signed[],
  records: AsyncIterable<ExportedRecord> | Iterable<ExportedRecord>,
): AsyncGenerator<Uint8Array, void, void> {
  const head = [writeHeaderLine(batch), ...keys.map(writeKeyLine)];
  yield Buffer.from(`${head.join("\n")}\n`);
  let written = 0;
  let items = 0;
  for await (const { body, block, signedHead } of records) {
    written++;
    yield Buffer.from(`${body}\n`);
    if (block !== null) {
      items += countLines(block.bytes);
      yield block.bytes;
      if (block.details !== "") yield Buffer.from(block.details);
    }
    if (signedHead !== null) yield Buffer.from(`${writeSignedHeadLine(signedHead)}\n`);
  }
  yield Buffer.from(`${writeEndLine(written, items)}\n`);
}

const NEWLINE = 10;

function countLines(bytes: Uint8Array): number {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let lines = 0;
  for (let at = buffer.indexOf(NEWLINE); at !== -1; at = buffer.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}
