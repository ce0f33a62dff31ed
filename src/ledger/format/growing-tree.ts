/**
 * A Merkle tree that only grows at its end, as the few nodes that its root is made of: the roots of
 * its largest complete subtrees, one for each bit of its size. Appending costs one hash a leaf on
 * average, and what is kept for the next time is some hundred bytes, however large the tree.
 */
import { hash } from "node:crypto";
import { EMPTY_ROOT, HASH_DIGITS, hashNode } from "./merkle-tree.ts";

const HASH_BYTES = HASH_DIGITS / 2;
/** Sizes stay below 2^53: the nodes of all lower levels, and the leaf that is merged into them. */
const NODES_MAX = 54;
const NODE_PREFIX = 1;

export class GrowingTree {
  /** The nodes one after the other, with room for a prefix before the first. */
  readonly #bytes = Buffer.alloc(1 + NODES_MAX * HASH_BYTES);
  /** Two neighbours with the byte before them, where their prefix goes: what a merge hashes. */
  readonly #pairs: readonly Buffer[] = Array.from({ length: NODES_MAX - 1 }, (_, node) =>
    this.#bytes.subarray(node * HASH_BYTES, 1 + (node + 2) * HASH_BYTES),
  );
  #nodes = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Takes a leaf's hash. */
  append(leaf: string): void {
    decodeHash(leaf, this.#bytes, 1 + this.#nodes * HASH_BYTES);
    this.#nodes++;
    // As a counter carries: each one at the size's end is a subtree that is complete now.
    for (let size = this.#size; size % 2 === 1; size = Math.floor(size / 2)) this.#merge();
    this.#size++;
  }

  computeRoot(): string {
    if (this.#nodes === 0) return EMPTY_ROOT;
    let root = this.#node(this.#nodes - 1);
    for (let node = this.#nodes - 2; node >= 0; node--) root = hashNode(this.#node(node), root);
    return root;
  }

  clear(): void {
    this.#nodes = 0;
    this.#size = 0;
  }

  /** Its nodes, the largest subtree's first: with the size, all that is needed to go on. */
  save(): string {
    return this.#bytes.toString("hex", 1, 1 + this.#nodes * HASH_BYTES);
  }

  /** Null when the text is not what a tree of this size is saved as. */
  static restore(size: number, saved: string): GrowingTree | null {
    const isSize = Number.isSafeInteger(size) && size >= 0;
    const nodes = isSize ? countOnes(size) : 0;
    const isHex = /^[0-9a-f]*$/.test(saved) && saved.length === nodes * HASH_DIGITS;
    if (!isSize || !isHex) return null;
    const tree = new GrowingTree();
    tree.#bytes.write(saved, 1, "hex");
    tree.#nodes = nodes;
    tree.#size = size;
    return tree;
  }

  #node(node: number): string {
    return this.#bytes.toString("hex", 1 + node * HASH_BYTES, 1 + (node + 1) * HASH_BYTES);
  }

  /** The last two nodes become one. Nothing is copied: they are neighbours, and lend a byte. */
  #merge(): void {
    const left = this.#nodes - 2;
    const prefix = left * HASH_BYTES;
    const lent = this.#bytes[prefix] as number;
    this.#bytes[prefix] = NODE_PREFIX;
    const node = hash("sha256", this.#pairs[left] as Buffer, "hex");
    this.#bytes[prefix] = lent;
    decodeHash(node, this.#bytes, prefix + 1);
    this.#nodes--;
  }
}

const DIGITS = new Uint8Array(128);
for (const [value, digit] of Buffer.from("0123456789abcdef").entries()) DIGITS[digit] = value;

/** As `Buffer.write` does, without its cost of a call for so few bytes. */
function decodeHash(hex: string, bytes: Uint8Array, at: number): void {
  for (let i = 0; i < HASH_BYTES; i++) {
    const high = DIGITS[hex.charCodeAt(2 * i)] as number;
    bytes[at + i] = (high << 4) | (DIGITS[hex.charCodeAt(2 * i + 1)] as number);
  }
}

function countOnes(size: number): number {
  let ones = 0;
  for (let rest = size; rest >= 1; rest = Math.floor(rest / 2)) ones += rest % 2;
  return ones;
}
