/** Checks proofs, with only the document and the keys that the reader trusts. */
import { type ChainLine, readChainLine } from "../format/chain-line.ts";
import { type SignedHead, parseSignedHead } from "../format/signed-head.ts";
import { type ItemLine, readItemLine } from "../format/item-line.ts";
import { digestDetails, SALT_BYTES } from "../format/item-record.ts";
import { readItemsChange } from "../format/items-change.ts";
import { KeyRing } from "../keys/key-ring.ts";
import { HASH_DIGITS, hashLeaf, isConsistent, isIncluded } from "../format/merkle-tree.ts";
import { hashBody, PROOF_VERSION } from "./proof.ts";
import { isSigned, SIGNATURE_DIGITS, type Signed } from "../format/signing-key.ts";
import {
  hasMembers,
  isCount,
  isHex,
  isJsonObject,
  type JsonObject,
  parseCanonical,
} from "../format/strict-json.ts";
import type { Json } from "../../core/base/canonical-json.ts";

/** `"proven"` is of one record, `"consistent"` of two signed heads. */
export type ProofVerdict<Kind extends "proven" | "consistent" = "proven" | "consistent"> = Extract<
  AnyVerdict,
  { readonly kind: Kind | "refused" }
>;

type AnyVerdict =
  | {
      readonly kind: "proven";
      /** `<seq>`, or `<seq>/<index>`. */
      readonly place: string;
      /** The exact bytes of the proven record. */
      readonly text: string;
      readonly record: ChainLine | ItemLine;
      readonly signedHead: SignedHead;
    }
  | { readonly kind: "consistent"; readonly older: SignedHead; readonly newer: SignedHead }
  | { readonly kind: "refused"; readonly why: string };

/** The most hashes on the path of a tree with 2^53 leaves. */
const PATH_MAX = 53;
const KEYS_MAX = 1_000;

/** `trusted` as for `verifyExport`; without any, nothing can be proven. */
export function checkProof(proof: string, trusted: readonly string[]): ProofVerdict<"proven"> {
  return judge<ProofVerdict<"proven">>(() => {
    const value = parseDocument(proof, PROOF_MEMBERS, "proof");
    const { record: text, tree, block = null, details = null } = value;
    need(typeof text === "string", "the proof has no record");
    need(isPath(tree), "the path of the record is malformed");
    const signedHead = checkSignedHead(value["head"], readKeys(value["keys"], trusted));
    const body = block === null ? text : readHeader(block);
    const record = readRecord(body);
    need(record.seq === tree.index + 1, "the record has another number than its place");
    need(record.batch === signedHead.batch, "the record and the signed head are of two batches");
    const place = { index: tree.index, size: signedHead.size };
    const isThere = isIncluded(hashLeaf(body), place, tree.path, signedHead.root);
    need(isThere, "the record is not in the tree of the signed head");
    const isLast = record.seq === signedHead.size;
    need(
      !isLast || hashBody(body) === signedHead.head,
      "the signed head names another last record",
    );
    if (block === null) {
      need(details === null, "only items have details");
      return { kind: "proven", place: String(record.seq), text, record, signedHead };
    }
    const item = checkItem(text, block, record);
    if (details !== null) checkDetails(details, item);
    const at = `${record.seq}/${(block as JsonObject)["index"] as number}`;
    return { kind: "proven", place: at, text, record: item, signedHead };
  });
}

export function checkConsistency(
  proof: string,
  trusted: readonly string[],
): ProofVerdict<"consistent"> {
  return judge<ProofVerdict<"consistent">>(() => {
    const members = ["consistency", "keys", "newer", "older", "path"];
    const value = parseDocument(proof, members, "consistency");
    const ring = readKeys(value["keys"], trusted);
    const older = checkSignedHead(value["older"], ring);
    const newer = checkSignedHead(value["newer"], ring);
    need(older.batch === newer.batch, "the signed heads are of two batches");
    const { path } = value;
    need(isHashes(path), "the path is malformed");
    need(isConsistent(older, newer, path), "the newer signed head does not extend the older one");
    return { kind: "consistent", older, newer };
  });
}

const PROOF_MEMBERS = ["block?", "details?", "head", "keys", "proof", "record", "tree"];

function parseDocument(text: string, members: readonly string[], version: string): JsonObject {
  const parsed = parseCanonical(text.replace(/\n$/, ""));
  need(
    parsed.kind === "object",
    `the proof is not readable: ${parsed.kind === "refused" ? parsed.why : ""}`,
  );
  const { value } = parsed;
  need(hasMembers(value, members), "the proof does not have the right members");
  need(value[version] === PROOF_VERSION, "the version of the proof is not known");
  return value;
}

function readKeys(keys: unknown, trusted: readonly string[]): KeyRing {
  need(Array.isArray(keys) && keys.length <= KEYS_MAX, "the keys of the proof are malformed");
  const ring = new KeyRing(trusted);
  for (const key of keys as unknown[]) {
    const problem = isSignedText(key) ? ring.introduce(key) : "the statement of a key is malformed";
    need(problem === null, String(problem));
  }
  return ring;
}

function checkSignedHead(signed: unknown, ring: KeyRing): SignedHead {
  const signedHead = isSignedText(signed) ? parseSignedHead(signed.body) : null;
  need(isSignedText(signed) && signedHead !== null, "the signed head is malformed");
  const key = ring.find(signedHead.key);
  need(
    key?.isTrusted === true,
    `the signed head is signed by key ${signedHead.key}, which is neither trusted nor introduced by one that is`,
  );
  const isValid = isSigned(key.publicKey, "sluice-signed-head", signed);
  need(isValid, `the signature of the signed head is not that of key ${signedHead.key}`);
  return signedHead;
}

function readHeader(block: unknown): string {
  const isShaped =
    isJsonObject(block) &&
    hasMembers(block, ["header", "index", "path"]) &&
    typeof block["header"] === "string" &&
    isCount(block["index"]) &&
    isHashes(block["path"]);
  need(isShaped, "the block of the proof is malformed");
  return block["header"] as string;
}

function readRecord(body: string): ChainLine {
  const read = readChainLine(body);
  need(
    read.kind === "record",
    `the record is not readable: ${read.kind === "refused" ? read.why : ""}`,
  );
  return read.record;
}

/** Only after `readHeader`. */
function checkItem(text: string, block: unknown, record: ChainLine): ItemLine {
  const { index, path } = block as { index: number; path: string[] };
  const change = readItemsChange(record) ?? null;
  const header = change?.block ?? null;
  need(change !== null && header !== null, "the record before the block has no block");
  const read = readItemLine(text);
  need(
    read.kind === "item",
    `the record is not readable: ${read.kind === "refused" ? read.why : ""}`,
  );
  const { line } = read;
  const fits =
    line.batch === record.batch && line.step === change.step && line.worker === change.worker;
  need(fits, "the record of the item is of another block");
  const isThere = isIncluded(hashLeaf(text), { index, size: header.count }, path, header.root);
  need(isThere, "the record is not in the tree of its block");
  return line;
}

function checkDetails(value: unknown, { details: digest }: ItemLine): void {
  const isShaped =
    isJsonObject(value) &&
    hasMembers(value, ["details", "salt"]) &&
    isHex(value["salt"], SALT_BYTES * 2);
  need(isShaped, "the details are malformed");
  const { salt, details } = value as { salt: string; details: Json };
  need(digest === digestDetails(salt, details), "the details are not those that were recorded");
}

function isSignedText(value: unknown): value is Signed {
  return (
    isJsonObject(value) &&
    hasMembers(value, ["body", "signature"]) &&
    typeof value["body"] === "string" &&
    isHex(value["signature"], SIGNATURE_DIGITS)
  );
}

function isHashes(value: unknown): value is string[] {
  return (
    Array.isArray(value) &&
    value.length <= PATH_MAX * 2 &&
    value.every((one) => isHex(one, HASH_DIGITS))
  );
}

function isPath(value: unknown): value is { readonly index: number; readonly path: string[] } {
  return (
    isJsonObject(value) &&
    hasMembers(value, ["index", "path"]) &&
    isCount(value["index"]) &&
    isHashes(value["path"])
  );
}

class Refusal extends Error {}

function need(condition: boolean, why: string): asserts condition {
  if (!condition) throw new Refusal(why);
}

function judge<Verdict>(check: () => Verdict): Verdict | { kind: "refused"; why: string } {
  try {
    return check();
  } catch (error) {
    if (error instanceof Refusal) return { kind: "refused", why: error.message };
    throw error;
  }
}
