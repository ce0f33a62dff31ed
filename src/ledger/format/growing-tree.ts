/**
 * A Merkle tree that only grows at its end, stored as the few nodes that its root is computed from:
 * the roots of its largest complete subtrees, one for each bit of its size. Appending costs one
 * hash a leaf on average, and saving it takes some hundred bytes, however large the tree.
 */
import { hash } from "node:crypto";
import { EMPTY_ROOT, HASH_DIGITS, hashNode } from "./merkle-tree.ts";

const HASH_BYTES = HASH_DIGITS / 2;
/** Sizes stay below 2^53: one node for each level, and the leaf that is being merged. */
const NODES_MAX = 54;
const NODE_PREFIX = 1;

export class GrowingTree {
  /** The nodes one after the other, with room for a prefix before the first. */
  readonly #bytes = Buffer.alloc(1 + NODES_MAX * HASH_BYTES);
  /**
   * Two neighbours with the byte before them, where their prefix goes: the bytes that a merge
   * hashes.
   */
  readonly #pairs: readonly Buffer[] = Array.from({ length: NODES_MAX - 1 }, (_, node) =>
    this.#bytes.subarray(node * HASH_BYTES, 1 + (node + 2) * HASH_BYTES),
  );
  #nodes = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Appends a leaf's hash. */
  append(leaf: string): void {
    decodeHash(leaf, this.#bytes, 1 + this.#nodes * HASH_BYTES);
    this.#nodes++;
    // Like a binary counter: each carry completes a subtree.
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

  /** Its nodes, the largest subtree's first: with the size, all that is needed to continue. */
  save(): string {
    return this.#bytes.toString("hex", 1, 1 + this.#nodes * HASH_BYTES);
  }

  /** Null when the text was not saved from a tree of this size. */
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

  /**
   * Merges the last two nodes. Nothing is copied: they are neighbours, and the byte before them is
   * free.
   */
  #merge(): void {
    const left = this.#nodes - 2;
    const prefix = left * HASH_BYTES;
    const savedByte = this.#bytes[prefix] as number;
    this.#bytes[prefix] = NODE_PREFIX;
    const node = hash("sha256", this.#pairs[left] as Buffer, "hex");
    this.#bytes[prefix] = savedByte;
    decodeHash(node, this.#bytes, prefix + 1);
    this.#nodes--;
  }
}

const DIGITS = new Uint8Array(128);
for (const [value, digit] of Buffer.from("0123456789abcdef").entries()) DIGITS[digit] = value;

/** Like `Buffer.write`, without its cost per call for so few bytes. */
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
