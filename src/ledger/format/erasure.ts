/**
 * Erases the details that handlers recorded with items' states. Only details and their salts are
 * removed. The records stay as they were signed, with digests from which the details can no longer
 * be guessed.
 */
import { readItemLine, type ItemLine } from "./item-line.ts";

/** The end of a line of details: its record's position in the block, and the salt. */
const LINE_END = /,"i":(\d+),"salt":"[0-9a-f]+"\}$/;

/** A block's details without those of the selected items. */
export function eraseDetails(
  block: { readonly bytes: Uint8Array; readonly details: string },
  picks: (item: ItemLine) => boolean,
): string {
  if (block.details === "") return "";
  const records = Buffer.from(block.bytes).toString().split("\n");
  const isKept = (line: string): boolean => {
    const index = LINE_END.exec(line)?.[1];
    const read = index === undefined ? undefined : readItemLine(records[Number(index)] ?? "");
    // Details without a readable record are erased too: erasing was promised.
    return read?.kind === "item" && !picks(read.line);
  };
  const kept = block.details.split("\n").filter((line) => line !== "" && isKept(line));
  return kept.map((line) => `${line}\n`).join("");
}
