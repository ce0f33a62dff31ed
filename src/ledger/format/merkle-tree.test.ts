import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GrowingTree } from "./growing-tree.ts";
import {
  computeConsistencyPath,
  computeInclusionPath,
  computeRoot,
  EMPTY_ROOT,
  hashLeaf,
  hashNode,
  isConsistent,
  isIncluded,
} from "./merkle-tree.ts";

/** The test inputs that implementations of Certificate Transparency share, and their roots. */
const INPUTS = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
];
const ROOTS = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

const leaf = (index: number): string => hashLeaf(Buffer.from(`leaf ${index}`));
const leavesUpTo = (size: number): string[] => Array.from({ length: size }, (_, at) => leaf(at));
const SIZES = Array.from({ length: 71 }, (_, size) => size);

/** The RFC's definition: recursion on slices. */
function defineRoot(leaves: readonly string[]): string {
  if (leaves.length === 0) return EMPTY_ROOT;
  if (leaves.length === 1) return leaves[0]!;
  const split = 2 ** Math.floor(Math.log2(leaves.length - 1));
  return hashNode(defineRoot(leaves.slice(0, split)), defineRoot(leaves.slice(split)));
}

describe("the Merkle tree (RFC 6962)", () => {
  test("has the known roots over the known inputs", () => {
    const leaves = INPUTS.map((hex) => hashLeaf(Buffer.from(hex, "hex")));
    const sizes = ROOTS.map((_, index) => index + 1);
    expect(sizes.map((size) => computeRoot(leaves.slice(0, size)))).toEqual(ROOTS);
    expect(computeRoot([])).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
  });

  test("has the known inclusion and consistency paths", () => {
    const leaves = INPUTS.map((hex) => hashLeaf(Buffer.from(hex, "hex")));
    expect(computeInclusionPath(leaves, 0)).toEqual([
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]);
    expect(computeInclusionPath(leaves.slice(0, 5), 1)).toEqual([
      "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ]);
    expect(computeConsistencyPath(leaves, 6)).toEqual([
      "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]);
  });

  test("grows leaf by leaf to the same roots, also after a save and a restore", () => {
    let tree = new GrowingTree();
    for (const size of SIZES) {
      expect(tree.computeRoot()).toBe(defineRoot(leavesUpTo(size)));
      expect(computeRoot(leavesUpTo(size))).toBe(tree.computeRoot());
      tree = GrowingTree.restore(tree.size, tree.save()) ?? new GrowingTree();
      tree.append(leaf(size));
    }
  });

  test("proves each leaf of each size, and no other leaf, position, size or root", () => {
    for (const size of SIZES.slice(1)) {
      const leaves = leavesUpTo(size);
      const root = computeRoot(leaves);
      for (const index of leaves.keys()) {
        const path = computeInclusionPath(leaves, index);
        expect(isIncluded(leaf(index), { index, size }, path, root)).toBe(true);
        expect(isIncluded(leaf(index + 1), { index, size }, path, root)).toBe(false);
        expect(isIncluded(leaf(index), { index: index + 1, size }, path, root)).toBe(false);
        expect(isIncluded(leaf(index), { index, size }, path, leaf(size))).toBe(false);
        expect(isIncluded(leaf(index), { index, size }, [...path, leaf(1)], root)).toBe(false);
        if (path.length > 0) {
          expect(isIncluded(leaf(index), { index, size }, path.slice(1), root)).toBe(false);
        }
      }
    }
  });

  test("proves for any two sizes that the larger tree extends the smaller", () => {
    const all = leavesUpTo(70);
    const roots = SIZES.map((size) => computeRoot(all.slice(0, size)));
    for (const to of SIZES.slice(1)) {
      for (const from of SIZES.slice(1, to + 1)) {
        const path = computeConsistencyPath(all.slice(0, to), from);
        const older = { size: from, root: roots[from]! };
        const newer = { size: to, root: roots[to]! };
        expect(isConsistent(older, newer, path)).toBe(true);
        const forged = { size: from, root: leaf(99) };
        expect(isConsistent(forged, newer, path)).toBe(false);
        expect(isConsistent(older, { size: to, root: leaf(99) }, path)).toBe(false);
        if (path.length > 0) expect(isConsistent(older, newer, path.slice(0, -1))).toBe(false);
        expect(isConsistent(older, newer, [...path, leaf(1)])).toBe(false);
      }
    }
  });

  test("a shortened or empty tree is consistent with nothing", () => {
    const older = { size: 3, root: computeRoot(leavesUpTo(3)) };
    const newer = { size: 2, root: computeRoot(leavesUpTo(2)) };
    expect(isConsistent(older, newer, [])).toBe(false);
    expect(isConsistent({ size: 0, root: EMPTY_ROOT }, newer, [])).toBe(false);
  });

  test("any size: a proof holds, and not with one byte changed", () => {
    const sizes = fc.integer({ min: 1, max: 600 });
    fc.assert(
      fc.property(sizes, fc.nat(), fc.nat(), fc.nat(), (size, at, hop, flip) => {
        const leaves = leavesUpTo(size);
        const root = computeRoot(leaves);
        const index = at % size;
        const path = computeInclusionPath(leaves, index);
        expect(isIncluded(leaf(index), { index, size }, path, root)).toBe(true);
        if (path.length === 0) return;
        const changed = path.map((node, place) =>
          place === hop % path.length ? flipDigit(node, flip % node.length) : node,
        );
        expect(isIncluded(leaf(index), { index, size }, changed, root)).toBe(false);
      }),
      { numRuns: 40 },
    );
  });

  test("refuses to restore nodes that do not fit the size", () => {
    const tree = new GrowingTree();
    tree.append(leaf(0));
    for (const [size, saved] of [
      [2, ""],
      [3, tree.save()],
      [1, tree.save().toUpperCase()],
      [-1, ""],
      [1.5, tree.save()],
      [Number.POSITIVE_INFINITY, ""],
    ] as const) {
      expect(GrowingTree.restore(size, saved)).toBeNull();
    }
  });
});

function flipDigit(hex: string, at: number): string {
  const digit = (Number.parseInt(hex[at]!, 16) ^ 1).toString(16);
  return hex.slice(0, at) + digit + hex.slice(at + 1);
}
