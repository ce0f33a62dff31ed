/**
 * Signs chains. Each checkpoint costs what is new of its chain, as the tree over the rest is kept with
 * the last one. A chain that is broken is not signed.
 */
import { hash } from "node:crypto";
import { CHAIN_START, type ChainHead, verifyChain } from "../core/chain.ts";
import { signCheckpoint } from "../ledger/checkpoint.ts";
import { GrowingTree } from "../ledger/growing-tree.ts";
import type { KeyFile } from "../ledger/key-file.ts";
import { hashLeaf } from "../ledger/merkle-tree.ts";
import { readKeyId, type SigningKey } from "../ledger/signing-key.ts";
import { type Clock, formatInstant } from "../ports/clock.ts";
import type { LedgerStore, StoredCheckpoint } from "../ports/ledger.ts";
import type { Log } from "./log.ts";

export interface SignerParts {
  readonly store: LedgerStore;
  readonly clock: Pick<Clock, "wallMs">;
  readonly log: Log;
}

/** Opens the key that signs; `at` is the time of day, for the statement of one that is new. */
export type OpenKey = (at: string) => KeyFile;

const PAGE = 1_000;

const sha256 = (text: string): string => hash("sha256", text);

export class LedgerSigner {
  readonly #parts: SignerParts;
  readonly #openFile: OpenKey;
  /** Ids of keys that the store knows. */
  readonly #introduced = new Set<string>();

  constructor(parts: SignerParts, openKey: OpenKey) {
    this.#parts = parts;
    this.#openFile = openKey;
  }

  /** Signs what is new of a batch's chain; answers how many of its links are signed. */
  async sign(batch: string): Promise<number> {
    const { store, clock } = this.#parts;
    for (;;) {
      const last = await store.findCheckpoint(batch);
      const signedTo = last?.size ?? 0;
      const grown = await this.#grow(batch, last);
      if (grown === null || grown.tree.size === signedTo) return signedTo;
      const { tree, head } = grown;
      const at = formatInstant(clock.wallMs());
      const facts = { batch, tree, head: head.hash, at, previous: last?.body ?? null };
      const signed = signCheckpoint(facts, await this.#openKey(at));
      const checkpoint = { size: tree.size, ...signed, tree: tree.save() };
      // Whoever else has signed meanwhile may have seen less of it: each refusal is one of theirs.
      if (await store.addCheckpoint(batch, checkpoint, signedTo)) return tree.size;
    }
  }

  /** The tree over the chain as it is now; null when the chain is broken. */
  async #grow(
    batch: string,
    last: StoredCheckpoint | null,
  ): Promise<{ readonly tree: GrowingTree; readonly head: ChainHead } | null> {
    const { store, log } = this.#parts;
    const tree = last === null ? new GrowingTree() : GrowingTree.restore(last.size, last.tree);
    let head = last === null ? CHAIN_START : readHead(last);
    for (;;) {
      const links = await store.readLedger(batch, tree.size, PAGE);
      if (links.length === 0) return { tree, head };
      const verdict = verifyChain(links, sha256, head);
      if (verdict.kind === "broken") {
        const message = `the ledger of batch ${batch} is broken at record ${verdict.seq}: ${verdict.why}; it is not signed`;
        log({ level: "error", event: "ledger.broken", message, batch });
        return null;
      }
      for (const { body } of links) tree.append(hashLeaf(body));
      ({ head } = verdict);
    }
  }

  /** Read anew each time, as somebody may have put another key in its place. */
  async #openKey(at: string): Promise<SigningKey> {
    const { key, statements } = this.#openFile(at);
    for (const statement of statements) {
      const id = readKeyId(statement);
      if (this.#introduced.has(id)) continue;
      await this.#parts.store.addKey({ id, ...statement });
      this.#introduced.add(id);
    }
    return key;
  }
}

/** The last link that a checkpoint covers. */
function readHead({ size, body }: StoredCheckpoint): ChainHead {
  const { head } = JSON.parse(body) as { readonly head: string };
  return { seq: size, hash: head };
}
