/**
 * Compares the signed heads of an export with its records, the reader's keys and external anchors.
 */
import type { ChainHead } from "../../core/ledger/chain.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { ensure, refuse } from "./broken-export.ts";
import {
  type SignedHead,
  FIRST_HEAD_PREV,
  hashSignedHead,
  parseSignedHead,
} from "../format/signed-head.ts";
import { SIGNED_HEAD_LINE, readSigned } from "../format/export-line.ts";
import type { GrowingTree } from "../format/growing-tree.ts";
import { KeyRing } from "../keys/key-ring.ts";
import { isSigned, type Signed } from "../format/signing-key.ts";
import { parseCanonical, show } from "../format/strict-json.ts";

/** The records so far. */
export interface ChainSoFar {
  readonly batch: string;
  readonly head: ChainHead;
  readonly tree: GrowingTree;
}

interface Anchor extends SignedHead {
  readonly body: string;
}

export class SignedHeadCheck {
  readonly #ring: KeyRing;
  readonly #mustBeTrusted: boolean;
  readonly #anchors: readonly Anchor[];
  readonly #anchorSizes: ReadonlySet<number>;
  readonly #signers = new Set<string>();
  /** Bodies of anchors that have not been found yet. */
  readonly #unmet: Set<string>;
  #prev = FIRST_HEAD_PREV;
  #signedTo = 0;
  #count = 0;
  #batch = "";

  constructor(trusted: readonly string[], anchors: readonly string[]) {
    this.#ring = new KeyRing(trusted);
    this.#mustBeTrusted = trusted.length > 0;
    this.#anchors = anchors.map(readAnchor);
    this.#anchorSizes = new Set(this.#anchors.map(({ size }) => size));
    this.#unmet = new Set(this.#anchors.map(({ body }) => body));
  }

  introduce(signed: Signed | null): void {
    ensure(signed !== null, "the statement of a key is malformed");
    const problem = this.#ring.introduce(signed);
    if (problem !== null) refuse(problem);
  }

  take(signed: Signed | null, { batch, head, tree }: ChainSoFar): void {
    const signedHead = signed === null ? null : parseSignedHead(signed.body);
    ensure(signed !== null && signedHead !== null, "the signed head is malformed");
    const { size } = signedHead;
    ensure(signedHead.batch === batch, `the signed head is about batch ${show(signedHead.batch)}`);
    ensure(
      size > this.#signedTo,
      `the signed head of ${size} records follows one of ${this.#signedTo}`,
    );
    ensure(
      size === head.seq,
      `the signed head covers ${size} records but stands after record ${head.seq}`,
    );
    ensure(signedHead.head === head.hash, "the signed head names another last record");
    ensure(signedHead.root === tree.computeRoot(), "the signed head has the root of other records");
    ensure(
      signedHead.prev === this.#prev,
      "the signed head before this one is missing or different",
    );
    this.#checkSignature(signed, signedHead.key);
    this.#prev = hashSignedHead(signed.body);
    this.#unmet.delete(signed.body);
    this.#signedTo = size;
    this.#count++;
  }

  #checkSignature(signed: Signed, id: string): void {
    const key = this.#ring.find(id);
    ensure(key !== undefined, `the signed head is signed by key ${id}, which is not known`);
    ensure(
      key.isTrusted || !this.#mustBeTrusted,
      `the signed head is signed by key ${id}, which is neither trusted nor introduced by one that is`,
    );
    const isValid = isSigned(key.publicKey, "sluice-signed-head", signed);
    ensure(isValid, `the signature of the signed head is not that of key ${id}`);
    this.#signers.add(id);
  }

  /** An anchor for the current record: it must match. */
  compareAnchors({ batch, head, tree }: ChainSoFar): void {
    this.#batch = batch;
    if (!this.#anchorSizes.has(head.seq)) return;
    for (const anchor of this.#anchors) {
      if (anchor.batch !== batch || anchor.size !== head.seq) continue;
      ensure(
        anchor.head === head.hash && anchor.root === tree.computeRoot(),
        `an anchor of ${anchor.at} has other records up to here: the history was rewritten`,
      );
    }
  }

  /** What is wrong with the anchors after everything was read; null for nothing. */
  findMissingAnchor(batch: string, records: number): string | null {
    const unmet = this.#anchors.filter((one) => one.batch === batch && this.#unmet.has(one.body));
    const later = unmet.find(({ size }) => size > records);
    if (later !== undefined) {
      return `the export is older than its anchor: it has ${records} records, and on ${later.at} there were ${later.size}`;
    }
    const [gone] = unmet;
    return gone === undefined
      ? null
      : `the signed head of record ${gone.size}, which was anchored on ${gone.at}, is not in the export`;
  }

  summarise(): {
    readonly signedHeads: number;
    readonly signedTo: number;
    readonly signers: readonly string[];
    readonly isTrusted: boolean;
    readonly anchors: number;
    readonly otherAnchors: number;
  } {
    const signers = [...this.#signers];
    const anchors = this.#anchors.filter(({ batch }) => batch === this.#batch).length;
    return {
      signedHeads: this.#count,
      signedTo: this.#signedTo,
      signers,
      isTrusted: signers.length > 0 && signers.every((id) => this.#ring.find(id)?.isTrusted),
      anchors,
      otherAnchors: this.#anchors.length - anchors,
    };
  }
}

/**
 * A signed head's body, or a line that contains one. An unreadable anchor would silently prove
 * nothing.
 */
function readAnchor(text: string): Anchor {
  const parsed = text.startsWith(SIGNED_HEAD_LINE) ? parseCanonical(text) : null;
  const body = parsed?.kind === "object" ? readSigned(parsed.value, "head")?.body : text;
  const signedHead = body === undefined ? null : parseSignedHead(body);
  if (signedHead === null || body === undefined) {
    throw new SluiceError("BAD_OPTION", "an anchor is not a signed head", {
      field: "anchors",
      hint: "Give signed heads as they were anchored, one per line.",
    });
  }
  return { ...signedHead, body };
}
