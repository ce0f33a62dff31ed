/** The store as the notary and those who inspect a ledger see it. */
import type { Act, LinkType } from "../../core/batch/batch.ts";

/** One link of a batch's chain, with what belongs to it. */
export interface LedgerLink {
  readonly seq: number;
  readonly type: LinkType;
  /** The canonical JSON that was hashed. */
  readonly body: string;
  readonly hash: string;
  /** What the link holds the root of; null where it holds none. */
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

/** How a key was introduced that signs signed heads; public. */
export interface StoredKey {
  readonly id: string;
  readonly body: string;
  readonly signature: string;
}

/** What erasing leaves of a link's details. */
export interface KeptDetails {
  readonly seq: number;
  /** As they were read. */
  readonly was: string;
  readonly details: string | null;
  /** Of how many records they go. */
  readonly records: number;
}

export interface LedgerStore {
  /**
   * The whole chain of a batch after one of its links, in order: its records, and what it tells of
   * its items where it keeps a ledger of them. A page may be shorter than was asked for, as blocks
   * are large; only an empty one is the end. Of a batch that retention is removing there is none.
   */
  readLedger(batch: string, afterSeq: number, limit: number): Promise<readonly LedgerLink[]>;
  /** The last signed head of a batch; null before the first. */
  findSignedHead(batch: string): Promise<StoredSignedHead | null>;
  /** Of a batch, in order. */
  readSignedHeads(batch: string): Promise<readonly StoredSignedHead[]>;
  /**
   * False when the last one does not cover this many links: somebody else has signed meanwhile. It is
   * also a message, if its topic has a group: nobody pays for anchors that nobody keeps.
   */
  addSignedHead(batch: string, signedHead: StoredSignedHead, afterSize: number): Promise<boolean>;
  /** All that ever signed here, in the order in which they came. */
  readKeys(): Promise<readonly StoredKey[]>;
  /** One that is known already stays as it is. */
  addKey(key: StoredKey): Promise<void>;
  /**
   * Puts what is left in the place of links' details, and a record of who did it and why. Details that
   * are not as they were read stay as they are: what somebody else has erased must not come back.
   * Answers of how many records they are gone; the record says as much, and of none there is none.
   */
  eraseDetails(batch: string, kept: readonly KeptDetails[], act: Act): Promise<number>;
}
