/**
 * A process whose appenders all write into the ledger of one batch until all its chunks are done:
 *   node appender-process.ts <store> <batch> <appenders>
 * Each appender leases a chunk and reports on it in two parts, with item records. On standard output
 * it prints the blocks that it has written: `<chunk>/<fence>/<block>` and the block's text.
 */
import { once } from "node:events";
import { openStore } from "../../src/stores/open-store.ts";
import { BlockBuilder } from "../../src/ledger/format/block.ts";
import type { LedgerBlock } from "../../src/core/ledger/item-ledger.ts";
import type { LeasedChunk, Report } from "../../src/ports/store/worker-store.ts";
import { NOTHING_NOTED } from "../../src/runtime/chunk/chunk-notes.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { toMap, type Word } from "../support/outcome-words.ts";

const [address = "", batch = "", appenders = "1"] = process.argv.slice(2);
const store = await openStore(address, { clock: systemClock, random: systemRandom });
const worker = await store.registerWorker({ name: "appender" });
const lease = {
  worker,
  pipeline: "appending",
  versions: ["1"],
  step: 0,
  batch,
  itemsMax: 1,
  chunksMax: 1,
  leaseMs: 600_000,
  slots: 1,
  keeps: [],
};

function record(chunk: LeasedChunk, number: number, items: readonly number[]): LedgerBlock {
  const builder = new BlockBuilder({ batch, lane: "appending", step: 0, worker });
  for (const index of items) {
    const item = chunk.start + index;
    const facts = { atMs: Date.now(), item, attempt: 1, drive: 1, content: null };
    // Names with unusual characters must come out unchanged.
    const key = `item \u{1f600} "${item}" \\ \u0000\u2028\u00e9`;
    const details = { salt: "00112233445566778899aabbccddeeff", details: { item, of: [key] } };
    builder.add({ ...facts, key, state: "RECEIVED" }, details);
    builder.add({ ...facts, key, state: "STORED" }, null);
  }
  const { bytes, count, root, details } = builder.finish();
  return { number, count, root, lines: Buffer.from(bytes).toString(), details };
}

function describe(
  { step, chunk, fence, start, end }: LeasedChunk,
  done: number,
  intent: Report["intent"],
  block: LedgerBlock,
): Report {
  const words = Array.from(
    { length: end - start },
    (_, index): Word => (index < done ? "succeeded" : "pending"),
  );
  return {
    batch,
    step,
    chunk,
    fence,
    outcomes: toMap(words),
    ...NOTHING_NOTED,
    limitWait: null,
    starting: [],
    intent,
    busyMs: 0,
    ledger: { blocks: [block] },
  };
}

async function append(): Promise<void> {
  for (;;) {
    const [chunk] = (await store.work([], lease)).leased;
    if (chunk === undefined) return;
    const items = Array.from({ length: chunk.end - chunk.start }, (_, index) => index);
    const half = Math.ceil(items.length / 2);
    const parts = [
      { done: half, intent: "keep", block: record(chunk, 1, items.slice(0, half)) },
      { done: items.length, intent: "yield", block: record(chunk, 2, items.slice(half)) },
    ] as const;
    for (const { done, intent, block } of parts) {
      const report = describe(chunk, done, intent, block);
      const { reports } = await store.work([report], null);
      const name = `${chunk.chunk}/${chunk.fence}/${block.number}`;
      if (reports[0] === "lost") throw new Error(`block ${name} was refused`);
      console.log(JSON.stringify({ name, lines: block.lines, details: block.details }));
    }
  }
}

console.log("ready");
// All begin at once.
await once(process.stdin, "data");
process.stdin.pause();
await Promise.all(Array.from({ length: Number(appenders) }, append));
await store.close();
