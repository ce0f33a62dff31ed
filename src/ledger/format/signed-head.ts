/**
 * A signed head: the signed root of the tree over a batch's records so far. It contains the last
 * record's hash and the previous signed head, so that none can be left out between two others.
 */
import { hash } from "node:crypto";
import { canonicalize } from "../../core/base/canonical-json.ts";
import { CHAIN_START } from "../../core/ledger/chain.ts";
import type { GrowingTree } from "./growing-tree.ts";
import { HASH_DIGITS } from "./merkle-tree.ts";
import { KEY_ID_DIGITS, type Signed, type SigningKey, signText } from "./signing-key.ts";
import { hasMembers, isCount, isHex, isInstant, parseCanonical } from "./strict-json.ts";

const VERSION = 1;

/** The predecessor of a batch's first signed head. */
export const FIRST_HEAD_PREV = CHAIN_START.hash;

export interface SignedHead {
  readonly batch: string;
  /** How many records it covers: the number of the last one. */
  readonly size: number;
  /** Of the tree over their bodies, as hex. */
  readonly root: string;
  /** The hash of the last record. */
  readonly head: string;
  readonly at: string;
  /** SHA-256 of the body of the signed head before it. */
  readonly prev: string;
  /** The id of the key that signs it. */
  readonly key: string;
}

export interface SignedHeadFacts {
  readonly batch: string;
  readonly tree: GrowingTree;
  readonly head: string;
  readonly at: string;
  /** The body of the signed head before it; null for the first. */
  readonly previous: string | null;
}

export function signHead(facts: SignedHeadFacts, key: SigningKey): Signed {
  const { batch, tree, head, at, previous } = facts;
  const body = canonicalize({
    v: VERSION,
    batch,
    size: tree.size,
    root: tree.computeRoot(),
    head,
    at,
    prev: previous === null ? FIRST_HEAD_PREV : hashSignedHead(previous),
    key: key.id,
  });
  return signText(key, "sluice-signed-head", body);
}

export function hashSignedHead(body: string): string {
  return hash("sha256", body, "hex");
}

/** Null when the text is not a valid signed head. */
export function parseSignedHead(body: string): SignedHead | null {
  const parsed = parseCanonical(body);
  if (parsed.kind === "refused") return null;
  const { value } = parsed;
  const members = ["at", "batch", "head", "key", "prev", "root", "size", "v"];
  const isShaped =
    hasMembers(value, members) &&
    value["v"] === VERSION &&
    typeof value["batch"] === "string" &&
    isInstant(value["at"]) &&
    isHex(value["head"], HASH_DIGITS) &&
    isHex(value["prev"], HASH_DIGITS) &&
    isHex(value["root"], HASH_DIGITS) &&
    isHex(value["key"], KEY_ID_DIGITS) &&
    isCount(value["size"]) &&
    value["size"] > 0;
  return isShaped ? (value as unknown as SignedHead) : null;
}
