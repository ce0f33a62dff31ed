/**
 * Erasing what people recorded beside items' states. Only details and their salts go; the records,
 * with digests that nobody can guess any more, stay as they were signed.
 */
import { readItemLine, type ItemLine } from "./item-line.ts";

/** How a line of details ends: its record's place in the block, and the salt. */
const LINE_END = /,"i":(\d+),"salt":"[0-9a-f]+"\}$/;

/** A block's details without those of the items that are picked: what is to be kept in their place. */
export function eraseDetails(
  block: { readonly bytes: Uint8Array; readonly details: string },
  picks: (item: ItemLine) => boolean,
): string {
  if (block.details === "") return "";
  const records = Buffer.from(block.bytes).toString().split("\n");
  const isKept = (line: string): boolean => {
    const index = LINE_END.exec(line)?.[1];
    const read = index === undefined ? undefined : readItemLine(records[Number(index)] ?? "");
    // What cannot be told apart goes with what was asked for: erasing is what was promised.
    return read?.kind === "item" && !picks(read.line);
  };
  const kept = block.details.split("\n").filter((line) => line !== "" && isKept(line));
  return kept.map((line) => `${line}\n`).join("");
}
