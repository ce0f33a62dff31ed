/** An export of a batch whose items have four records each, in blocks of a hundred items. */
import { hash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import { ITEMS_RECORDED } from "../../dist/core/batch/batch.js";
import { BlockBuilder } from "../../dist/ledger/format/block.js";
import { signHead } from "../../dist/ledger/format/signed-head.js";
import { type ExportedRecord, writeExport } from "../../dist/ledger/format/export-line.js";
import { GrowingTree } from "../../dist/ledger/format/growing-tree.js";
import type { ItemRecordFacts } from "../../dist/ledger/format/item-record.js";
import { hashLeaf } from "../../dist/ledger/format/merkle-tree.js";
import {
  introduceKey,
  makeKey,
  type SigningKey,
  toSigningKey,
} from "../../dist/ledger/format/signing-key.js";
import { CHAIN_START, chainRecord } from "../../dist/core/ledger/chain.js";

export const STATES = ["RECEIVED", "VALIDATED", "ARCHIVED", "INDEXED"];
export const BLOCK_ITEMS = 100;
const BLOCKS_A_HEAD = 500;
const BATCH = "b-abcdefghijkl";
const LANE = "north";
const AT = "2026-11-16T12:00:00.000Z";
export const PLACE = { batch: BATCH, lane: LANE, step: 0, worker: 3 };

const sha256 = (text: string): string => hash("sha256", text, "hex");
const CONTENT = sha256("content");

export function makeFacts(item: number, state: string): ItemRecordFacts {
  const atMs = Date.UTC(2026, 10, 16) + Math.floor(item / 30);
  const key = `item-${item}`;
  return { atMs, item, key, state, attempt: 1, drive: 1, content: CONTENT };
}

/** Returns the id of the key that signed it. */
export async function writeLedgerFile(path: string, records: number): Promise<string> {
  const key = toSigningKey(makeKey());
  const file = openSync(path, "w");
  try {
    const pieces = writeExport(BATCH, [introduceKey(key, null, AT)], listRecords(records, key));
    for await (const piece of pieces) writeSync(file, piece);
  } finally {
    closeSync(file);
  }
  return key.id;
}

function* listRecords(records: number, key: SigningKey): Generator<ExportedRecord, void, void> {
  const items = records / STATES.length;
  const tree = new GrowingTree();
  let head = CHAIN_START;
  let previous: string | null = null;
  const chain = (type: string, data: object): string => {
    const facts = { batch: BATCH, at: AT, type, data } as Parameters<typeof chainRecord>[1];
    const { seq, body, hash: recordHash } = chainRecord(head, facts, sha256);
    head = { seq, hash: recordHash };
    tree.append(hashLeaf(body));
    return body;
  };
  const plain = (type: string, data: object): ExportedRecord => {
    return { body: chain(type, data), block: null, signedHead: null };
  };
  const sign = (): ExportedRecord["signedHead"] => {
    const signed = signHead({ batch: BATCH, tree, head: head.hash, at: AT, previous }, key);
    previous = signed.body;
    return signed;
  };
  const chunks = Math.ceil(items / BLOCK_ITEMS);
  yield plain("batch.submitted", { lane: LANE, itemLedger: true });
  yield plain("batch.started", { step: 0, drive: 1 });
  yield plain("slicing.started", { step: 0 });
  yield plain("slicing.finished", { step: 0, items, chunks });
  for (let chunk = 0; chunk < chunks; chunk++) {
    const builder = new BlockBuilder(PLACE);
    const end = Math.min(items, (chunk + 1) * BLOCK_ITEMS);
    for (let item = chunk * BLOCK_ITEMS; item < end; item++) {
      for (const state of STATES) builder.add(makeFacts(item, state), null);
    }
    const block = builder.finish();
    const { count, root } = block;
    const body = chain(ITEMS_RECORDED, {
      step: 0,
      chunk,
      fence: 1,
      worker: PLACE.worker,
      succeeded: `${chunk * BLOCK_ITEMS}-${end - 1}`,
      block: { number: 1, count, root },
    });
    const isSigned = chunk % BLOCKS_A_HEAD === BLOCKS_A_HEAD - 1;
    yield { body, block, signedHead: isSigned ? sign() : null };
  }
  const none = { skipped: 0, failed: 0, cancelled: 0, pending: 0 };
  const counts = { planned: items, succeeded: items, ...none };
  yield plain("step.ended", { step: 0, name: "bench", counts });
  yield plain("batch.drained", {});
  const body = chain("batch.ended", { state: "succeeded", drive: 1, counts });
  yield { body, block: null, signedHead: sign() };
}
