/**
 * Verifies an export with only its bytes and what the reader trusts: the chain, the blocks, the
 * signatures, the external anchors, and that everything adds up to the batch's plan. It reads the
 * lines as a stream and stops at the first problem.
 */
import { isUtf8 } from "node:buffer";
import { hash } from "node:crypto";
import { CHAIN_START, type ChainHead } from "../../core/ledger/chain.ts";
import { hashLine } from "../format/block.ts";
import { BlockCheck } from "./block-check.ts";
import { BrokenExport, ensure, refuse } from "./broken-export.ts";
import {
  type ByteSource,
  LINE_BYTES_MAX,
  type LinesEnd,
  readByteLines,
} from "../format/byte-lines.ts";
import { readChainLine } from "../format/chain-line.ts";
import { SignedHeadCheck } from "./signed-head-check.ts";
import {
  SIGNED_HEAD_LINE,
  DETAILS_LINE,
  END_LINE,
  EXPORT_VERSION,
  KEY_LINE,
  readSigned,
} from "../format/export-line.ts";
import { GrowingTree } from "../format/growing-tree.ts";
import { type ItemsChange, readItemsChange } from "../format/items-change.ts";
import { LeaseOrder } from "./lease-order.ts";
import { PlanCheck } from "./plan-check.ts";
import {
  hasMembers,
  isJsonObject,
  type JsonObject,
  parseCanonical,
  show,
} from "../format/strict-json.ts";
import type { BrokenVerdict, Verdict } from "./verdict.ts";

export interface VerifyOptions {
  /**
   * Public keys (PEM) or ids of keys that the reader trusts. Without any, signatures are checked
   * with the keys in the export itself, and the verdict says that they are not trusted.
   */
  readonly trusted: readonly string[];
  /**
   * Signed heads that were stored elsewhere: their bodies, or lines as exports have them. Those of
   * other batches are ignored, so that a file of anchors can be passed unchanged.
   */
  readonly anchors?: readonly string[];
}

export async function verifyExport(source: ByteSource, options: VerifyOptions): Promise<Verdict> {
  const verifier = new ExportVerifier(options);
  const end = await readByteLines(source, (buffer, start, lineEnd) =>
    verifier.take(buffer, start, lineEnd),
  );
  return verifier.finish(end);
}

type Phase = "header" | "keys" | "records" | "end";

class ExportVerifier {
  readonly #signedHeads: SignedHeadCheck;
  readonly #plan = new PlanCheck();
  readonly #leases = new LeaseOrder();
  readonly #tree = new GrowingTree();
  #phase: Phase = "header";
  #batch = "";
  #head: ChainHead = CHAIN_START;
  #block: BlockCheck | null = null;
  /** What the last record says about items, if anything. */
  #change: ItemsChange | null = null;
  #line = 0;
  /** What the current line is about, as a verdict names it. */
  #record: string | null = null;
  #broken: BrokenVerdict | null = null;

  constructor({ trusted, anchors = [] }: VerifyOptions) {
    this.#signedHeads = new SignedHeadCheck(trusted, anchors);
  }

  /** False ends the reading: there is a problem. */
  take(buffer: Buffer, start: number, end: number): boolean {
    this.#line++;
    const block = this.#block;
    try {
      if (block !== null && block.left > 0) {
        // Its position is only formatted when needed.
        this.#record = null;
        block.takeItem(buffer, start, end);
        return block.left > 0 || this.#endBlock(block);
      }
      this.#takeLine(buffer, start, end);
      return true;
    } catch (error) {
      if (!(error instanceof BrokenExport)) throw error;
      const isItem = block !== null && this.#record === null && block.left > 0;
      const record = isItem ? `${this.#head.seq}/${block.index}` : this.#record;
      this.#broken = { kind: "broken", line: this.#line, record, why: error.message };
      return false;
    }
  }

  /** All lines of a block have been read; its record describes the resulting outcomes. */
  #endBlock(block: BlockCheck): boolean {
    if (!block.hasItsRoot()) return this.#breakBlock(block);
    const line = this.#line;
    this.#line -= block.index;
    this.#record = String(this.#head.seq);
    this.#plan.takeChange(this.#change as ItemsChange);
    this.#line = line;
    return true;
  }

  /** The changed line is unknown: the block as a whole is named. */
  #breakBlock({ index }: BlockCheck): false {
    const first = this.#line - index + 1;
    const record = String(this.#head.seq);
    const why = `its block, lines ${first} to ${this.#line}, is not the one that was recorded`;
    this.#broken = { kind: "broken", line: first - 1, record, why };
    return false;
  }

  finish(end: LinesEnd): Verdict {
    if (this.#broken !== null) return this.#broken;
    const broken = (line: number, why: string): Verdict => {
      return { kind: "broken", line, record: null, why };
    };
    if (end.kind === "too_long") {
      return broken(this.#line + 1, `the line is longer than ${LINE_BYTES_MAX} bytes`);
    }
    if (end.kind === "cut") {
      return broken(this.#line + 1, "the line has no end: the export was cut here");
    }
    if (this.#line === 0) return broken(1, "the export is empty");
    if (this.#phase !== "end") {
      return broken(this.#line, `the export was cut after record ${this.#head.seq}: it has no end`);
    }
    const missing = this.#signedHeads.findMissingAnchor(this.#batch, this.#head.seq);
    return missing === null ? this.#conclude() : broken(this.#line, missing);
  }

  #conclude(): Verdict {
    const { items = 0, present = 0, withDetails = 0 } = this.#block ?? {};
    const gone = withDetails - present;
    const erased = Math.min(gone, this.#plan.erased);
    return {
      kind: "intact",
      batch: this.#batch,
      records: this.#head.seq,
      items,
      ...this.#signedHeads.summarise(),
      ended: this.#plan.ended,
      details: { present, erased, missing: gone - erased },
    };
  }

  #takeLine(buffer: Buffer, start: number, end: number): void {
    const isRecord = this.#phase === "records" || this.#phase === "keys";
    // Until it is known to be something else, the next line is the next record.
    this.#record = isRecord ? String(this.#head.seq + 1) : null;
    ensure(isUtf8(buffer.subarray(start, end)), "the line is not UTF-8");
    const text = buffer.toString("utf8", start, end);
    switch (this.#phase) {
      case "header":
        this.#takeHeader(this.#parse(text));
        return;
      case "keys":
        if (text.startsWith(KEY_LINE)) {
          this.#record = null;
          this.#signedHeads.introduce(readSigned(this.#parse(text), "key"));
          return;
        }
        this.#phase = "records";
        this.#takeRecord(text, buffer, start, end);
        return;
      case "records":
        this.#takeBetween(text, buffer, start, end);
        return;
      case "end":
        refuse("more data follows the end");
    }
  }

  #takeHeader(value: JsonObject): void {
    const { batch, ledger } = value;
    const isHeader = hasMembers(value, ["batch", "ledger"]) && typeof batch === "string";
    ensure(isHeader, "the first line is not the header of an export");
    ensure(ledger === EXPORT_VERSION, `version ${show(ledger)} of the format is not known`);
    this.#batch = batch;
    this.#phase = "keys";
  }

  #takeBetween(text: string, buffer: Buffer, start: number, end: number): void {
    if (text.startsWith(DETAILS_LINE)) {
      this.#record = String(this.#head.seq);
      ensure(this.#block !== null, "there are details without a block");
      this.#block.takeDetails(this.#parse(text));
    } else if (text.startsWith(SIGNED_HEAD_LINE)) {
      this.#record = null;
      this.#block?.begin(null);
      const signed = readSigned(this.#parse(text), "head");
      this.#signedHeads.take(signed, { batch: this.#batch, head: this.#head, tree: this.#tree });
    } else if (text.startsWith(END_LINE)) {
      this.#record = null;
      this.#takeEnd(this.#parse(text));
    } else this.#takeRecord(text, buffer, start, end);
  }

  #takeRecord(text: string, buffer: Buffer, start: number, end: number): void {
    const seq = this.#head.seq + 1;
    const read = readChainLine(text);
    if (read.kind === "refused") refuse(read.why);
    const { record } = read;
    ensure(record.batch === this.#batch, `it is about batch ${show(record.batch)}`);
    ensure(record.seq === seq, `it has the number ${record.seq}, record ${seq} is missing`);
    ensure(
      record.prev === this.#head.hash,
      "it does not follow the record before it: one of the two was changed",
    );
    this.#plan.take(seq, record.type, record.data);
    this.#head = { seq, hash: hash("sha256", buffer.subarray(start, end), "hex") };
    this.#tree.append(hashLine(buffer, start, end));
    this.#signedHeads.compareAnchors({ batch: this.#batch, head: this.#head, tree: this.#tree });
    const change = readItemsChange(record);
    ensure(change !== null, "it says something impossible about items");
    if (change === undefined) {
      this.#block?.begin(null);
      return;
    }
    this.#plan.admitChange(change);
    this.#leases.take(change);
    this.#change = change;
    this.#block ??= new BlockCheck(this.#batch, this.#plan);
    this.#block.begin(change);
    if (change.block === null) this.#plan.takeChange(change);
  }

  #takeEnd(value: JsonObject): void {
    const { end } = value;
    const isEnd =
      hasMembers(value, ["end"]) && isJsonObject(end) && hasMembers(end, ["items", "records"]);
    ensure(isEnd, "the end of the export is malformed");
    const { seq } = this.#head;
    ensure(end["records"] === seq, `it ends with ${show(end["records"])} records, but has ${seq}`);
    const items = this.#block?.items ?? 0;
    ensure(end["items"] === items, `it ends with ${show(end["items"])} items, but has ${items}`);
    this.#phase = "end";
  }

  #parse(text: string): JsonObject {
    const parsed = parseCanonical(text);
    if (parsed.kind === "refused") refuse(parsed.why);
    return parsed.value;
  }
}
