import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { CHAIN_START, type ChainedRecord, chainRecord } from "../../core/ledger/chain.ts";
import { introduceKey, makeKey, toSigningKey } from "../../ledger/format/signing-key.ts";
import type { KeyFile } from "../../ledger/keys/key-file.ts";
import type { LedgerStore, StoredSignedHead, StoredKey } from "../../ports/store/ledger-store.ts";
import { LedgerSigner } from "./ledger-signer.ts";
import type { LogEntry } from "../system/log.ts";

const BATCH = "b-1";
const AT = "2026-11-16T12:00:00.000Z";

function makeKeyFile(): KeyFile {
  const key = toSigningKey(makeKey());
  return { key, statements: [introduceKey(key, null, AT)] };
}

/** A store with one batch, and a signer of its ledger. */
class Scene {
  readonly links: ChainedRecord[] = [];
  readonly signedHeads: StoredSignedHead[] = [];
  readonly keys: StoredKey[] = [];
  readonly logs: LogEntry[] = [];
  /** Runs before the next signed head is stored. */
  meanwhile: () => Promise<void> = async () => undefined;

  readonly store = {
    readLedger: async (_batch: string, after: number, limit: number) =>
      this.links.slice(after, after + limit).map((link) => ({ ...link, block: null })),
    findSignedHead: async () => this.signedHeads.at(-1) ?? null,
    addSignedHead: async (_batch: string, signedHead: StoredSignedHead, afterSize: number) => {
      const { meanwhile } = this;
      this.meanwhile = async () => undefined;
      await meanwhile();
      if ((this.signedHeads.at(-1)?.size ?? 0) !== afterSize) return false;
      this.signedHeads.push(signedHead);
      return true;
    },
    readKeys: async () => this.keys,
    addKey: async (key: StoredKey) => void this.keys.push(key),
  } as unknown as LedgerStore;

  grow(links: number): this {
    for (let n = 0; n < links; n++) {
      const facts = { batch: BATCH, type: "batch.paused", at: AT, data: { n } } as const;
      const sha256 = (text: string): string => hash("sha256", text);
      this.links.push(chainRecord(this.links.at(-1) ?? CHAIN_START, facts, sha256));
    }
    return this;
  }

  signer(keyFile: KeyFile): LedgerSigner {
    const log = (entry: LogEntry): void => void this.logs.push(entry);
    return new LedgerSigner({ store: this.store, clock: { wallMs: () => 0 }, log }, () => keyFile);
  }
}

describe("signing a ledger", () => {
  test("continues from the last signed head, and signs nothing twice", async () => {
    const scene = new Scene().grow(5);
    const signer = scene.signer(makeKeyFile());
    expect(await signer.sign(BATCH)).toBe(5);
    expect(await signer.sign(BATCH)).toBe(5);
    scene.grow(2_500);
    expect(await signer.sign(BATCH)).toBe(2_505);
    expect(scene.signedHeads.map(({ size }) => size)).toEqual([5, 2_505]);
    expect(scene.logs).toEqual([]);
  });

  test("a chain that another signer signed in part is signed to its end", async () => {
    const scene = new Scene().grow(4);
    const keyFile = makeKeyFile();
    const [one, other] = [scene.signer(keyFile), scene.signer(keyFile)];
    scene.meanwhile = async () => {
      const unseen = scene.links.splice(2);
      await other.sign(BATCH);
      scene.links.push(...unseen);
    };
    expect(await one.sign(BATCH)).toBe(4);
    expect(scene.signedHeads.map(({ size }) => size)).toEqual([2, 4]);
  });

  test.each([
    { tree: "zz" },
    { tree: "00".repeat(32) },
    { body: "{}" },
    { signature: "00".repeat(64) },
    { size: 3 },
  ])("does not continue from a changed signed head (%j)", async (changed) => {
    const scene = new Scene().grow(4);
    const keyFile = makeKeyFile();
    await scene.signer(keyFile).sign(BATCH);
    scene.signedHeads[0] = { ...(scene.signedHeads[0] as StoredSignedHead), ...changed };
    scene.grow(1);
    expect(await scene.signer(keyFile).sign(BATCH)).toBeNull();
    expect(scene.signedHeads).toHaveLength(1);
    expect(scene.logs).toMatchObject([{ level: "error", event: "ledger.broken", batch: BATCH }]);
  });

  test("a chain that is broken is not signed", async () => {
    const scene = new Scene().grow(3);
    scene.links[1] = { ...(scene.links[1] as ChainedRecord), body: "{}" };
    expect(await scene.signer(makeKeyFile()).sign(BATCH)).toBeNull();
    expect(scene.signedHeads).toEqual([]);
    expect(scene.logs[0]?.message).toMatch(/is broken: record 2: .*; it is not signed$/);
  });

  test("a key that does not follow from an earlier one is logged once, and signs", async () => {
    const scene = new Scene().grow(3);
    const first = makeKeyFile();
    await scene.signer(first).sign(BATCH);
    const later = scene.signer(makeKeyFile());
    for (let n = 0; n < 2; n++) {
      scene.grow(1);
      await later.sign(BATCH);
    }
    expect(scene.logs).toMatchObject([{ level: "error", event: "ledger.other_key" }]);
    expect(scene.logs[0]?.message).toContain(first.key.id);
    expect(scene.signedHeads).toHaveLength(3);
  });
});
