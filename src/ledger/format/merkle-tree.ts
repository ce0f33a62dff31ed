/**
 * The Merkle tree of RFC 6962 and RFC 9162: a leaf is SHA-256(0x00 || bytes), a node SHA-256(0x01
 * || left || right), and the left half is always the largest power of two that fits. The two
 * prefixes keep a node from being passed off as a leaf. Hashes are lower-case hex, as in the chain:
 * the platform makes them faster than bytes.
 */
import { hash } from "node:crypto";

export const HASH_DIGITS = 64;
const LEAF = Buffer.of(0);
const NODE = "01";

/** The root of a tree without leaves: SHA-256 of nothing. */
export const EMPTY_ROOT = hash("sha256", "", "hex");

/** For bytes, or the UTF-8 of a text: a record's body, or an item's line without its newline. */
export function hashLeaf(content: Uint8Array | string): string {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  return hash("sha256", Buffer.concat([LEAF, bytes]), "hex");
}

export function hashNode(left: string, right: string): string {
  return hash("sha256", Buffer.from(NODE + left + right, "hex"), "hex");
}

export function computeRoot(leaves: readonly string[]): string {
  return leaves.length === 0 ? EMPTY_ROOT : rootOf(leaves, 0, leaves.length);
}

/** The siblings on the way from a leaf to the root, the lowest first. */
export function computeInclusionPath(leaves: readonly string[], index: number): string[] {
  const path: string[] = [];
  let start = 0;
  let end = leaves.length;
  while (end - start > 1) {
    const middle = start + splitOf(end - start);
    if (index < middle) {
      path.push(rootOf(leaves, middle, end));
      end = middle;
    } else {
      path.push(rootOf(leaves, start, middle));
      start = middle;
    }
  }
  return path.reverse();
}

/** Proves that the tree over all leaves begins with the tree over the first `size` of them. */
export function computeConsistencyPath(leaves: readonly string[], size: number): string[] {
  const path: string[] = [];
  let start = 0;
  let end = leaves.length;
  // The verifier already knows the old root, so it is left out where it is a node of the new tree.
  let isOldRoot = true;
  while (size !== end) {
    const middle = start + splitOf(end - start);
    if (size <= middle) {
      path.push(rootOf(leaves, middle, end));
      end = middle;
    } else {
      path.push(rootOf(leaves, start, middle));
      start = middle;
      isOldRoot = false;
    }
  }
  if (!isOldRoot) path.push(rootOf(leaves, start, end));
  return path.reverse();
}

/** RFC 9162, 2.1.3.2. Sizes may be any whole number, so no 32-bit operators. */
export function isIncluded(
  leaf: string,
  place: { readonly index: number; readonly size: number },
  path: readonly string[],
  root: string,
): boolean {
  if (place.index >= place.size) return false;
  let at = place.index;
  let last = place.size - 1;
  let node = leaf;
  for (const sibling of path) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      node = hashNode(sibling, node);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
    } else {
      node = hashNode(node, sibling);
    }
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 && node === root;
}

/** A tree by its size and root. */
export interface TreeHead {
  readonly size: number;
  readonly root: string;
}

/** RFC 9162, 2.1.4.2. */
export function isConsistent(older: TreeHead, newer: TreeHead, path: readonly string[]): boolean {
  if (older.size === newer.size) {
    return path.length === 0 && older.root === newer.root;
  }
  if (older.size === 0 || older.size > newer.size) return false;
  const [first, ...rest] = isPowerOfTwo(older.size) ? [older.root, ...path] : path;
  if (first === undefined) return false;
  let at = older.size - 1;
  let last = newer.size - 1;
  while (at % 2 === 1) [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  let old = first;
  let now = first;
  for (const sibling of rest) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      old = hashNode(sibling, old);
      now = hashNode(sibling, now);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
    } else {
      now = hashNode(now, sibling);
    }
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 && old === older.root && now === newer.root;
}

function rootOf(leaves: readonly string[], start: number, end: number): string {
  if (end - start === 1) return leaves[start] as string;
  const middle = start + splitOf(end - start);
  return hashNode(rootOf(leaves, start, middle), rootOf(leaves, middle, end));
}

/** The largest power of two below a size of two or more. */
function splitOf(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

function isPowerOfTwo(size: number): boolean {
  return Number.isInteger(Math.log2(size));
}
