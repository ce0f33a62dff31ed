/** The store as the signing job and readers of a ledger see it. */
import type { Act, LinkType } from "../../core/batch/batch.ts";

/** One link of a batch's chain, with the data that it covers. */
export interface LedgerLink {
  readonly seq: number;
  readonly type: LinkType;
  /** The canonical JSON that was hashed. */
  readonly body: string;
  readonly hash: string;
  /** The block whose root the link contains; null for none. */
  readonly block: { readonly lines: string; readonly details: string | null } | null;
}

/** A signed head of a batch's chain, as it was signed. */
export interface StoredSignedHead {
  /** How many links it covers. */
  readonly size: number;
  readonly body: string;
  readonly signature: string;
  /** The tree over those links, so that the next signed head costs only what is new. */
  readonly tree: string;
}

/** How a signing key was introduced; public. */
export interface StoredKey {
  readonly id: string;
  readonly body: string;
  readonly signature: string;
}

/** What remains of a link's details after erasing. */
export interface KeptDetails {
  readonly seq: number;
  /** The details as the caller read them. */
  readonly was: string;
  readonly details: string | null;
  /** How many records are erased. */
  readonly records: number;
}

export interface LedgerStore {
  /**
   * The whole chain of a batch after one of its links, in order: its records, and links about items
   * where the batch keeps a ledger of items. A page may be shorter than requested, as blocks are
   * large; only an empty page is the end. A batch that retention is removing has no chain.
   */
  readLedger(batch: string, afterSeq: number, limit: number): Promise<readonly LedgerLink[]>;
  /** The last signed head of a batch; null before the first. */
  findSignedHead(batch: string): Promise<StoredSignedHead | null>;
  /** The signed heads of a batch, in order. */
  readSignedHeads(batch: string): Promise<readonly StoredSignedHead[]>;
  /**
   * False when the last signed head does not cover this many links: another signer was faster. It
   * is also published as a message, if its topic has a group: without one, no message is written.
   */
  addSignedHead(batch: string, signedHead: StoredSignedHead, afterSize: number): Promise<boolean>;
  /** All keys that ever signed here, in the order in which they were added. */
  readKeys(): Promise<readonly StoredKey[]>;
  /** A known key stays unchanged. */
  addKey(key: StoredKey): Promise<void>;
  /**
   * Replaces the details of links with what remains, and writes a record with who did it and why.
   * Details that have changed since they were read stay unchanged: what another process has erased
   * must not come back. Returns the number of erased records, which the record contains as well;
   * for 0 there is no record.
   */
  eraseDetails(batch: string, kept: readonly KeptDetails[], act: Act): Promise<number>;
}
