/**
 * Signs chains. Each signed head costs only what is new in its chain, because the tree over the
 * rest is stored with the last head. A broken chain is not signed.
 */
import { hash } from "node:crypto";
import { CHAIN_START, type ChainHead, verifyChain } from "../../core/ledger/chain.ts";
import { parseSignedHead, signHead } from "../../ledger/format/signed-head.ts";
import { GrowingTree } from "../../ledger/format/growing-tree.ts";
import type { KeyFile } from "../../ledger/keys/key-file.ts";
import { hashLeaf } from "../../ledger/format/merkle-tree.ts";
import { KeyRing } from "../../ledger/keys/key-ring.ts";
import {
  isSigned,
  readKeyId,
  type Signed,
  type SigningKey,
} from "../../ledger/format/signing-key.ts";
import { type Clock, formatInstant } from "../../ports/clock.ts";
import type { LedgerStore, StoredSignedHead } from "../../ports/store/ledger-store.ts";
import type { Log } from "../system/log.ts";

export interface SignerParts {
  readonly store: LedgerStore;
  readonly clock: Pick<Clock, "wallMs">;
  readonly log: Log;
}

/** Opens the key that signs; `at` is the wall-clock time, for the statement of a new key. */
export type OpenKey = (at: string) => KeyFile;

const PAGE = 1_000;
const CHANGED = "its last signed head was changed";

const sha256 = (text: string): string => hash("sha256", text);

export class LedgerSigner {
  readonly #parts: SignerParts;
  readonly #openFile: OpenKey;
  /** Keys that have signed here, if their statements are ours. */
  readonly #keys = new KeyRing([]);
  /** Ids of keys that the store has. */
  readonly #introduced = new Set<string>();

  constructor(parts: SignerParts, openKey: OpenKey) {
    this.#parts = parts;
    this.#openFile = openKey;
  }

  /**
   * Signs what is new in a batch's chain; returns how many links are signed, or null when the chain
   * is broken.
   */
  async sign(batch: string): Promise<number | null> {
    const { store, clock } = this.#parts;
    for (;;) {
      const last = await store.findSignedHead(batch);
      const signedTo = last?.size ?? 0;
      const grown = await this.#grow(batch, last);
      if (grown === null) return null;
      if (grown.tree.size === signedTo) return signedTo;
      const { tree, head } = grown;
      const at = formatInstant(clock.wallMs());
      const key = await this.#openKey(at);
      if (last !== null && !this.#isSound(last)) return this.#refuse(batch, CHANGED);
      const facts = { batch, tree, head: head.hash, at, previous: last?.body ?? null };
      const signed = signHead(facts, key);
      const signedHead = { size: tree.size, ...signed, tree: tree.save() };
      // Another signer was faster and may have signed less; each refusal means that one of them
      // progressed.
      if (await store.addSignedHead(batch, signedHead, signedTo)) return tree.size;
    }
  }

  /** The tree over the chain as it is now; null when the chain is broken. */
  async #grow(
    batch: string,
    last: StoredSignedHead | null,
  ): Promise<{ readonly tree: GrowingTree; readonly head: ChainHead } | null> {
    const { store } = this.#parts;
    const begun =
      last === null ? { tree: new GrowingTree(), head: CHAIN_START } : restore(batch, last);
    if (begun === null) return this.#refuse(batch, CHANGED);
    const { tree } = begun;
    let { head } = begun;
    for (;;) {
      const links = await store.readLedger(batch, tree.size, PAGE);
      if (links.length === 0) return { tree, head };
      const verdict = verifyChain(links, sha256, head);
      if (verdict.kind === "broken") {
        return this.#refuse(batch, `record ${verdict.seq}: ${verdict.why}`);
      }
      for (const { body } of links) tree.append(hashLeaf(body));
      ({ head } = verdict);
    }
  }

  /** Checks the signature if the key is ours; keys of others are for readers to judge. */
  #isSound({ body, signature }: StoredSignedHead): boolean {
    const { key = "" } = parseSignedHead(body) ?? {};
    const publicKey = this.#keys.find(key)?.publicKey;
    return (
      publicKey === undefined || isSigned(publicKey, "sluice-signed-head", { body, signature })
    );
  }

  #refuse(batch: string, why: string): null {
    const message = `the ledger of batch ${batch} is broken: ${why}; it is not signed`;
    this.#parts.log({ level: "error", event: "ledger.broken", message, batch });
    return null;
  }

  /** A key that does not follow from an earlier one usually means that the old key was lost. */
  async #greet(statements: readonly Signed[]): Promise<void> {
    const known = await this.#parts.store.readKeys();
    const ours = new Set(statements.map(readKeyId));
    const other = known.at(-1);
    if (other === undefined || known.some(({ id }) => ours.has(id))) return;
    const message = `ledgers of this store were signed by key ${other.id}, and the current key was not introduced by it; restore the old one if it was lost by mistake`;
    this.#parts.log({ level: "error", event: "ledger.other_key", message });
  }

  /** Read again each time: the key file may have been replaced. */
  async #openKey(at: string): Promise<SigningKey> {
    const { key, statements } = this.#openFile(at);
    if (this.#introduced.size === 0) await this.#greet(statements);
    for (const statement of statements) {
      const id = readKeyId(statement);
      if (this.#introduced.has(id)) continue;
      this.#keys.introduce(statement);
      await this.#parts.store.addKey({ id, ...statement });
      this.#introduced.add(id);
    }
    return key;
  }
}

/** The tree and the last link of a signed head; null when its stored parts do not match. */
function restore(
  batch: string,
  { size, body, tree: saved }: StoredSignedHead,
): { readonly tree: GrowingTree; readonly head: ChainHead } | null {
  const signedHead = parseSignedHead(body);
  if (signedHead?.batch !== batch || signedHead.size !== size) return null;
  const tree = GrowingTree.restore(size, saved);
  if (tree?.computeRoot() !== signedHead.root) return null;
  return { tree, head: { seq: size, hash: signedHead.head } };
}
