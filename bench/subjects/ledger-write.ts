/** What records of items cost the worker: their lines alone, and blocks of them with their root. */
import { BlockBuilder } from "../../dist/ledger/format/block.js";
import { ItemRecordWriter } from "../../dist/ledger/format/item-record.js";
import { checkCount, type Figures, runSubject } from "../subject-process.ts";
import { BLOCK_ITEMS, makeFacts, PLACE, STATES } from "./ledger-file.ts";

interface WriteOptions {
  readonly records: number;
}

/** The work for each block, in time of a core, which does not depend on how busy the machine is. */
function measure(blocks: number, makeBlock: (first: number) => number): number {
  const before = process.cpuUsage();
  let records = 0;
  for (let block = 0; block < blocks; block++) records += makeBlock(block * BLOCK_ITEMS);
  const { user, system } = process.cpuUsage(before);
  checkCount("records", records, blocks * BLOCK_ITEMS * STATES.length);
  return (user + system) / records;
}

async function measureWriting({ records }: WriteOptions): Promise<Figures> {
  const blocks = records / STATES.length / BLOCK_ITEMS;
  const lineUs = measure(blocks, (first) => {
    const writer = new ItemRecordWriter(PLACE);
    const lines: string[] = [];
    for (let item = first; item < first + BLOCK_ITEMS; item++) {
      for (const state of STATES) lines.push(writer.write(makeFacts(item, state), null));
    }
    // V8 builds a concatenated text only when it is first read.
    Buffer.byteLength(lines.join("\n"));
    return lines.length;
  });
  const blockUs = measure(blocks, (first) => {
    const builder = new BlockBuilder(PLACE);
    for (let item = first; item < first + BLOCK_ITEMS; item++) {
      for (const state of STATES) builder.add(makeFacts(item, state), null);
    }
    return builder.finish().count;
  });
  return await Promise.resolve({ lineUs, blockUs });
}

await runSubject(measureWriting);
