/**
 * Makes exports as an engine does: real chain records, blocks, details and signatures. The result
 * is a list of lines, so that tests can change them as a forger would.
 */
import { hash } from "node:crypto";
import { ITEMS_RECORDED, type LinkType } from "../../src/core/batch/batch.ts";
import { canonicalize, type Json } from "../../src/core/base/canonical-json.ts";
import { CHAIN_START, type ChainHead, chainRecord } from "../../src/core/ledger/chain.ts";
import type { Counts } from "../../src/core/batch/counts.ts";
import { BlockBuilder, type SaltedDetails } from "../../src/ledger/format/block.ts";
import { signHead } from "../../src/ledger/format/signed-head.ts";
import {
  writeSignedHeadLine,
  writeEndLine,
  writeHeaderLine,
  writeKeyLine,
} from "../../src/ledger/format/export-line.ts";
import { GrowingTree } from "../../src/ledger/format/growing-tree.ts";
import { hashLeaf } from "../../src/ledger/format/merkle-tree.ts";
import {
  introduceKey,
  makeKey,
  type Signed,
  type SigningKey,
  toSigningKey,
} from "../../src/ledger/format/signing-key.ts";

export const sha256 = (text: string): string => hash("sha256", text, "hex");

const START_MS = Date.UTC(2026, 10, 16, 12);

export interface BlockOptions {
  readonly step?: number;
  readonly chunk?: number;
  readonly fence?: number;
  readonly block?: number;
  readonly worker?: number | null;
  /**
   * Items that succeeded or were skipped have no record, as with an engine without item records.
   */
  readonly unseen?: boolean;
}

/** A state that a handler recorded; or the engine's own record: an outcome, or `retried`. */
export interface RecordOfItem {
  readonly item: number;
  readonly state: string;
  readonly key?: string | null;
  readonly attempt?: number;
  readonly drive?: number;
  readonly code?: string | null;
  readonly details?: SaltedDetails;
}

export function newSigningKey(): SigningKey {
  return toSigningKey(makeKey());
}

export function exportPem({ publicKey }: SigningKey): string {
  return String(publicKey.export({ type: "spki", format: "pem" }));
}

export class ExportBuilder {
  readonly batch: string;
  readonly lane: string;
  key: SigningKey;
  readonly firstKey: SigningKey;
  readonly #keys: string[] = [];
  readonly #body: string[] = [];
  readonly #tree = new GrowingTree();
  readonly signedHeads: Signed[] = [];
  head: ChainHead = CHAIN_START;
  /** Items that have a record, by step. */
  readonly #seen = new Set<string>();
  #atMs = START_MS;
  items = 0;

  constructor(batch = "b-test", lane = "north", key = newSigningKey()) {
    this.batch = batch;
    this.lane = lane;
    this.key = key;
    this.firstKey = key;
    this.#keys.push(writeKeyLine(introduceKey(key, null, this.#at())));
  }

  get pem(): string {
    return exportPem(this.firstKey);
  }

  #at(): string {
    this.#atMs += 7;
    return new Date(this.#atMs).toISOString();
  }

  record(type: string, data: { readonly [key: string]: Json | undefined }): this {
    const facts = { batch: this.batch, type: type as LinkType, at: this.#at(), data };
    const { seq, body, hash: recordHash } = chainRecord(this.head, facts, sha256);
    this.head = { seq, hash: recordHash };
    this.#tree.append(hashLeaf(body));
    this.#body.push(body);
    return this;
  }

  /** One change of a chunk: what handlers recorded, and the outcomes of its items. */
  block(records: readonly RecordOfItem[], options: BlockOptions = {}): this {
    const { step = 0, chunk = 0, fence = 1, block = 1, worker = 3 } = options;
    const builder = new BlockBuilder({
      batch: this.batch,
      lane: this.lane,
      step,
      worker: worker ?? 0,
    });
    for (const { item, state: told, key, attempt = 1, drive = 1, details } of records) {
      this.#atMs += 1;
      const isSeen = this.#seen.has(`${step}/${item}`) || options.unseen === true;
      const mustBeSeen = (told === "succeeded" || told === "skipped") && !isSeen;
      if (TOLD.includes(told) && !mustBeSeen) continue;
      this.#seen.add(`${step}/${item}`);
      const state = mustBeSeen ? "seen" : told;
      const own = { item, key: key === undefined ? `item-${item}` : key, state, attempt, drive };
      const content = sha256(`content of ${item}`);
      builder.add({ atMs: this.#atMs, ...own, content }, details ?? null);
    }
    const made = builder.finish();
    const { bytes, count, root, details } = made;
    this.record(ITEMS_RECORDED, {
      step,
      chunk,
      fence,
      ...(worker === null ? { cause: "stalled" } : { worker }),
      ...tellOutcomes(records),
      ...(count === 0 ? {} : { block: { number: block, count, root } }),
    });
    this.#body.push(...splitLines(Buffer.from(bytes).toString()), ...splitLines(details));
    this.items += count;
    return this;
  }

  /** A lease expired. */
  lose({ step = 0, chunk = 0, fence = 1, worker = 3 }: BlockOptions): this {
    return this.record(ITEMS_RECORDED, { step, chunk, fence, worker, cause: "lost" });
  }

  /** These failures of a chunk are redriven; `dead_letters.redriven` must follow. */
  putBack(items: readonly number[], drive: number, options: BlockOptions = {}): this {
    const { step = 0, chunk = 0, fence = 1 } = options;
    const data = { step, chunk, fence, redriven: writeRanges(items), drive };
    return this.record(ITEMS_RECORDED, data);
  }

  addSignedHead(): this {
    const previous = this.signedHeads.at(-1)?.body ?? null;
    const { batch, head } = this;
    const facts = { batch, tree: this.#tree, head: head.hash, at: this.#at(), previous };
    const signed = signHead(facts, this.key);
    this.signedHeads.push(signed);
    this.#body.push(writeSignedHeadLine(signed));
    return this;
  }

  rotateKey(): this {
    const next = newSigningKey();
    this.#keys.push(writeKeyLine(introduceKey(next, this.key, this.#at())));
    this.key = next;
    return this;
  }

  begin(extra: { readonly [key: string]: Json } = {}): this {
    const { lane } = this;
    this.record("batch.submitted", {
      pipeline: "import",
      version: "1",
      lane,
      key: null,
      inputHash: sha256("input"),
      ...extra,
    });
    return this.record("batch.started", { step: 0, drive: 1 });
  }

  plan(items: number, step = 0): this {
    const chunks = Math.ceil(items / 10);
    this.record("slicing.started", { step });
    return this.record("slicing.finished", { step, items, chunks });
  }

  endStep(counts: Partial<Counts>, step = 0): this {
    return this.record("step.ended", { step, name: `step ${step}`, counts: fill(counts) });
  }

  end(state: string, counts: Partial<Counts>, drive = 1): this {
    this.record("batch.drained", {});
    this.record("batch.ended", { state, drive, counts: fill(counts) });
    return this.record("batch.released", { lane: this.lane });
  }

  lines(): string[] {
    const end = writeEndLine(this.head.seq, this.items);
    return [writeHeaderLine(this.batch), ...this.#keys, ...this.#body, end];
  }
}

/** The engine's own part of an item record. */
const TOLD = ["succeeded", "skipped", "failed", "retried"];

function tellOutcomes(records: readonly RecordOfItem[]): { [name: string]: Json } {
  const told: { [name: string]: Json } = {};
  for (const state of TOLD) {
    const of = records.filter((one) => one.state === state);
    if (of.length === 0) continue;
    const isRange = state === "succeeded" || state === "skipped";
    told[state] = isRange ? writeRanges(of.map(({ item }) => item)) : of.map(describeTry);
  }
  return told;
}

function describeTry({ item, key, attempt = 1, drive = 1, code = null }: RecordOfItem): Json {
  return {
    item,
    key: key === undefined ? `item-${item}` : key,
    attempts: attempt,
    ...(drive > 1 ? { drive } : {}),
    code,
    class: code === null ? null : "transient",
  };
}

/** Item by item, so that it shares no code with the engine. */
function writeRanges(items: readonly number[]): string {
  const all = new Set(items);
  const firsts = items.filter((item) => !all.has(item - 1)).toSorted((a, b) => a - b);
  return firsts
    .map((first) => {
      let last = first;
      while (all.has(last + 1)) last++;
      return first === last ? `${first}` : `${first}-${last}`;
    })
    .join(",");
}

function fill(counts: Partial<Counts>): { [Name in keyof Counts]: number } {
  const { succeeded = 0, skipped = 0, failed = 0, cancelled = 0, pending = 0 } = counts;
  const planned = counts.planned ?? succeeded + skipped + failed + cancelled + pending;
  return { planned, succeeded, skipped, failed, cancelled, pending };
}

function splitLines(text: string): string[] {
  return text.split("\n").slice(0, -1);
}

export function toBytes(lines: readonly string[]): Buffer {
  return Buffer.from(lines.map((line) => `${line}\n`).join(""));
}

export const SALT = "00112233445566778899aabbccddeeff";

/**
 * A batch of ten items and two chunks, with a retry, a failure, details, a rotated key, two signed
 * heads.
 */
export function buildSample(batch = "b-test", key = newSigningKey()): ExportBuilder {
  const builder = new ExportBuilder(batch, "north", key).begin({ itemLedger: true }).plan(10);
  const states = (item: number, ...all: string[]): RecordOfItem[] =>
    all.map((state) => ({ item, state }));
  builder.block(
    [
      ...[0, 1, 2, 3].flatMap((item) => states(item, "RECEIVED", "STORED", "succeeded")),
      ...states(4, "RECEIVED"),
      { item: 4, state: "retried", code: "ECONNRESET" },
    ],
    { chunk: 0 },
  );
  builder.addSignedHead().rotateKey();
  builder.block(
    [
      { item: 4, state: "RECEIVED", attempt: 2, details: { salt: SALT, details: { name: "Ann" } } },
      { item: 4, state: "STORED", attempt: 2 },
      { item: 4, state: "succeeded" },
    ],
    { chunk: 0, block: 2 },
  );
  builder.block(
    [
      ...[5, 6, 7].flatMap((item) => states(item, "RECEIVED", "STORED", "succeeded")),
      { item: 8, state: "REPEATED", key: null },
      { item: 8, state: "skipped" },
      {
        item: 9,
        state: "RECEIVED",
        details: { salt: SALT, details: { page: 4, who: 'Zo\u00eb "Z"' } },
      },
      { item: 9, state: "failed", code: "NO_PAGE" },
    ],
    { chunk: 1, worker: 4 },
  );
  const counts = { succeeded: 8, skipped: 1, failed: 1 };
  return builder.endStep(counts).end("completed_with_errors", counts).addSignedHead();
}

/** Writes a record's line again after a change of its content, and updates nothing else. */
export function rewrite(line: string, change: (value: Record<string, Json>) => void): string {
  const value = JSON.parse(line) as Record<string, Json>;
  change(value);
  return canonicalize(value);
}
