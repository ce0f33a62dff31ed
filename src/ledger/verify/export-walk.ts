/**
 * Reads the lines of an export without verifying it: to prove or show something from an export that
 * is trusted or already verified. Refuses a file that is not an export at all.
 */
import type { Json } from "../../core/base/canonical-json.ts";
import type { SaltedDetails } from "../format/block.ts";
import { type ByteSource, readByteLines } from "../format/byte-lines.ts";
import { type ChainLine, readChainLine } from "../format/chain-line.ts";
import {
  SIGNED_HEAD_LINE,
  DETAILS_LINE,
  END_LINE,
  KEY_LINE,
  readSigned,
} from "../format/export-line.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { type ItemLine, readItemLine } from "../format/item-line.ts";
import { type ItemsChange, readItemsChange } from "../format/items-change.ts";
import type { Signed } from "../format/signing-key.ts";
import { isCount, parseCanonical } from "../format/strict-json.ts";

/** A record of an item: its block's record number in the chain, and its position in the block. */
export interface ItemPlace {
  readonly seq: number;
  readonly index: number;
}

/** The callbacks of a walk, in the order of the lines. Texts are without their newline. */
export interface ExportWalker {
  readonly onKey?: (signed: Signed) => void;
  /** `change` is what the record says about items; null for none. */
  readonly onRecord?: (record: ChainLine, text: string, change: ItemsChange | null) => void;
  readonly onItem?: (record: ItemPlace, item: ItemLine, text: string) => void;
  readonly onDetails?: (record: ItemPlace, details: SaltedDetails) => void;
  readonly onSignedHead?: (signed: Signed) => void;
}

export async function walkExport(source: ByteSource, walker: ExportWalker): Promise<void> {
  const walk = new Walk(walker);
  const end = await readByteLines(source, (buffer, start, lineEnd) => {
    walk.take(buffer.toString("utf8", start, lineEnd));
    return true;
  });
  if (end.kind !== "read" || !walk.isOver) throw walk.refuse("it was cut");
}

class Walk {
  readonly #walker: ExportWalker;
  #line = 0;
  #seq = 0;
  #index = 0;
  #left = 0;
  isOver = false;

  constructor(walker: ExportWalker) {
    this.#walker = walker;
  }

  refuse(why: string): SluiceError {
    const place = this.#line === 0 ? "" : `, line ${this.#line}`;
    return new SluiceError(
      "LEDGER_EXPORT",
      `this is not a complete ledger export${place}: ${why}`,
      {
        hint: "Verify it first: `verifyExport` reports the problem.",
      },
    );
  }

  take(text: string): void {
    this.#line++;
    if (this.#line === 1) {
      if (!/^\{"batch":.*,"ledger":1\}$/.test(text)) throw this.refuse("it has no header");
    } else if (this.#left > 0) {
      this.#left--;
      this.#takeItem(text);
    } else if (text.startsWith(KEY_LINE)) this.#walker.onKey?.(this.#readSigned(text, "key"));
    else if (text.startsWith(DETAILS_LINE)) this.#takeDetails(text);
    else if (text.startsWith(SIGNED_HEAD_LINE)) {
      this.#walker.onSignedHead?.(this.#readSigned(text, "head"));
    } else if (text.startsWith(END_LINE)) this.isOver = true;
    else this.#takeRecord(text);
  }

  #takeItem(text: string): void {
    const read = readItemLine(text);
    if (read.kind === "refused") throw this.refuse(read.why);
    this.#walker.onItem?.({ seq: this.#seq, index: this.#index++ }, read.line, text);
  }

  #takeDetails(text: string): void {
    const parsed = parseCanonical(text);
    if (parsed.kind === "refused") throw this.refuse(parsed.why);
    const { i: index, salt, details } = parsed.value;
    if (!isCount(index) || typeof salt !== "string") throw this.refuse("it has malformed details");
    const record = { seq: this.#seq, index };
    this.#walker.onDetails?.(record, { salt, details: details as Json });
  }

  #takeRecord(text: string): void {
    const read = readChainLine(text);
    if (read.kind === "refused") throw this.refuse(read.why);
    this.#seq = read.record.seq;
    const change = readItemsChange(read.record);
    if (change === null) throw this.refuse("a record says something impossible about items");
    this.#index = 0;
    this.#left = change?.block?.count ?? 0;
    this.#walker.onRecord?.(read.record, text, change ?? null);
  }

  #readSigned(text: string, member: "key" | "head"): Signed {
    const parsed = parseCanonical(text);
    const signed = parsed.kind === "object" ? readSigned(parsed.value, member) : null;
    if (signed === null) throw this.refuse(`it has a malformed ${member}`);
    return signed;
  }
}
