/**
 * The item records of one report, as one block of lines with one root. A settle adds a single
 * record to its batch's chain, however many items it is about, and hashing happens before the
 * transaction begins.
 */
import { hash } from "node:crypto";
import type { Json } from "../../core/base/canonical-json.ts";
import { GrowingTree } from "./growing-tree.ts";
import {
  digestDetails,
  type ItemRecordFacts,
  type ItemRecordPlace,
  ItemRecordWriter,
  writeDetailsLine,
} from "./item-record.ts";

const NEWLINE = 10;
const LEAF_PREFIX = 0;

export interface Block {
  /** Lines of canonical JSON, each with its newline. */
  readonly bytes: Uint8Array;
  readonly count: number;
  /** The root of the tree over the lines, as hex. */
  readonly root: string;
  /** Lines as well, or empty; they can be erased, one by one or together. */
  readonly details: string;
}

/** Details with a salt, so that they cannot be guessed from their hash after they are erased. */
export interface SaltedDetails {
  readonly salt: string;
  readonly details: Json;
}

export class BlockBuilder {
  readonly #writer: ItemRecordWriter;
  #text = "";
  #count = 0;
  #details = "";

  constructor(place: ItemRecordPlace) {
    this.#writer = new ItemRecordWriter(place);
  }

  get count(): number {
    return this.#count;
  }

  add(facts: ItemRecordFacts, details: SaltedDetails | null): void {
    let digest: string | null = null;
    if (details !== null) {
      digest = digestDetails(details.salt, details.details);
      this.#details += `${writeDetailsLine(this.#count, details.salt, details.details)}\n`;
    }
    this.#text += `${this.#writer.write(facts, digest)}\n`;
    this.#count++;
  }

  finish(): Block {
    const bytes = Buffer.from(this.#text);
    const root = computeBlockRoot(bytes);
    return { bytes, count: this.#count, root, details: this.#details };
  }
}

/** The root over the lines of a block, as hex. */
export function computeBlockRoot(bytes: Uint8Array): string {
  // A leaf's prefix is written over the end of the line before it, in a copy; the given bytes do
  // not change.
  const prefixed = Buffer.allocUnsafe(1 + bytes.length);
  prefixed.set(bytes, 1);
  const tree = new GrowingTree();
  for (let start = 1; start < prefixed.length; ) {
    const newline = prefixed.indexOf(NEWLINE, start);
    const end = newline === -1 ? prefixed.length : newline;
    tree.append(hashLine(prefixed, start, end));
    start = end + 1;
  }
  return tree.computeRoot();
}

/** The leaf hash of a line; overwrites the byte before it, the end of its predecessor. */
export function hashLine(buffer: Uint8Array, start: number, end: number): string {
  buffer[start - 1] = LEAF_PREFIX;
  return hash("sha256", buffer.subarray(start - 1, end), "hex");
}
