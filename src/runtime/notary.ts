/**
 * Signs the chains of batches: that of a batch that has ended as soon as somebody may have seen its
 * end, that of one that runs at intervals. It is told of events like any other subscriber, so what
 * happened while no notary was there is signed when one comes. Each checkpoint costs what is new of
 * the chain, as the tree over the rest is kept with the last one. A chain that is broken is not signed.
 */
import { hash } from "node:crypto";
import { BATCH_STATES, isEnded } from "../core/batch.ts";
import { CHAIN_START, type ChainHead, verifyChain } from "../core/chain.ts";
import { signCheckpoint } from "../ledger/checkpoint.ts";
import { GrowingTree } from "../ledger/growing-tree.ts";
import { openKeyFile } from "../ledger/key-file.ts";
import { hashLeaf } from "../ledger/merkle-tree.ts";
import { readKeyId, type SigningKey } from "../ledger/signing-key.ts";
import type { BatchEvent } from "../ports/batch-event.ts";
import { type Clock, formatInstant, sleep } from "../ports/clock.ts";
import type { StoredCheckpoint } from "../ports/ledger.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store.ts";
import type { Log } from "./log.ts";
import { Setbacks } from "./setbacks.ts";

/** Of its durable reader. */
export const NOTARY = "sluice/notary";

export interface LedgerOptions {
  /** The key that signs, made where there is none: only its owner may read it. */
  readonly keyFile: string;
  /** How often a batch that runs is signed. Default every minute. */
  readonly everyMs?: number;
}

export interface NotaryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
}

const EVERY_MS = 60_000;
const PAGE = 1_000;
/** Batches that run at once, at most, of which each round signs what is new. */
const RUNNING_MAX = 1_000;
/** Batches of which it is remembered how far they are signed. */
const KNOWN_MAX = 10_000;
const LIVE_STATES = BATCH_STATES.filter((state) => !isEnded(state));

const sha256 = (text: string): string => hash("sha256", text);

export class Notary {
  readonly #parts: NotaryParts;
  readonly #options: LedgerOptions;
  /** How many links are signed, by batch. */
  readonly #signed = new Map<string, number>();
  readonly #introduced = new Set<string>();
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;

  constructor(parts: NotaryParts, options: LedgerOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#loop = this.#run().catch((error: unknown) => parts.onFatal(error));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  /** Something was recorded of a batch: of one that has ended there is a checkpoint after this. */
  readonly attest = async ({ batch, seq }: BatchEvent): Promise<void> => {
    if (seq <= (this.#signed.get(batch) ?? 0)) return;
    const snapshot = await this.#parts.store.getBatch(batch);
    if (snapshot !== null && isEnded(snapshot.state)) await this.sign(batch);
  };

  /** Signs what is new of a batch's chain. */
  async sign(batch: string): Promise<void> {
    const { store, clock } = this.#parts;
    const last = (await store.readCheckpoints(batch)).at(-1) ?? null;
    const grown = await this.#grow(batch, last);
    if (grown === null) return;
    const { tree, head } = grown;
    if (tree.size > (last?.size ?? 0)) {
      const at = formatInstant(clock.wallMs());
      const facts = { batch, tree, head: head.hash, at, previous: last?.body ?? null };
      const signed = signCheckpoint(facts, await this.#openKey(at));
      const checkpoint = { size: tree.size, ...signed, tree: tree.save() };
      await store.addCheckpoint(batch, checkpoint, last?.size ?? 0);
    }
    this.#remember(batch, tree.size);
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
    const { key, statements } = openKeyFile(this.#options.keyFile, at);
    for (const statement of statements) {
      const id = readKeyId(statement);
      if (this.#introduced.has(id)) continue;
      await this.#parts.store.addKey({ id, ...statement });
      this.#introduced.add(id);
    }
    return key;
  }

  #remember(batch: string, size: number): void {
    if (this.#signed.size >= KNOWN_MAX) this.#signed.clear();
    this.#signed.set(batch, size);
  }

  async #run(): Promise<void> {
    const { clock } = this.#parts;
    const { everyMs = EVERY_MS } = this.#options;
    const setbacks = new Setbacks({ event: "notary.retry" }, this.#parts);
    while (!this.#stop.signal.aborted) {
      await sleep(clock, everyMs, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      try {
        await this.#signRunning(everyMs);
        setbacks.clear();
      } catch (error) {
        const waitMs = setbacks.note(error);
        if (waitMs === null) throw error;
        await sleep(clock, waitMs, this.#stop.signal);
      }
    }
  }

  /** One of several notaries does it. */
  async #signRunning(everyMs: number): Promise<void> {
    const { store, worker } = this.#parts;
    if (!(await store.claim("notary", worker, everyMs))) return;
    for (const { id } of await store.listBatches({ states: LIVE_STATES, limit: RUNNING_MAX })) {
      if (this.#stop.signal.aborted) return;
      await this.sign(id);
    }
  }
}

/** The last link that a checkpoint covers. */
function readHead({ size, body }: StoredCheckpoint): ChainHead {
  const { head } = JSON.parse(body) as { readonly head: string };
  return { seq: size, hash: head };
}
