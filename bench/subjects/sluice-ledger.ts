/**
 * An empty handler over a file, with a ledger of items or without one: each item records a given
 * number of states. The store's size is measured when it is closed, so that nothing is left in a
 * log.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { createEngine, definePipeline, jsonl } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface LedgerOptions {
  readonly itemsPath: string;
  /** In the file. */
  readonly items: number;
  readonly chunkSize: number;
  /** For each item; 0 keeps no ledger of items. */
  readonly states: number;
  /** Whether the batch's ledger is signed: 1, or 0. */
  readonly signs: number;
}

const NAMES = ["RECEIVED", "VALIDATED", "ARCHIVED", "INDEXED"];
const SIGNED_WITHIN_MS = 60_000;

async function measureLedger(
  options: LedgerOptions & { readonly folder: string },
): Promise<Figures> {
  const { items, chunkSize, folder } = options;
  const signs = options.signs === 1;
  const states = NAMES.slice(0, options.states);
  const store = join(folder, "sluice.db");
  const pipeline = definePipeline({
    name: "bench",
    ...(states.length > 0 && { ledger: { item: true, states } }),
    source: ({ input }) => jsonl<{ id: string }>(input),
    chunkSize,
    concurrency: 16,
    key: ({ id }: { id: string }) => id,
    process: async (_item: unknown, { record }) => {
      for (const state of states) record(state);
    },
  });
  const ledger = signs ? { keyFile: join(folder, "ledger.key") } : null;
  const engine = await createEngine({ store, ledger });
  let seconds: number;
  try {
    const startedAt = performance.now();
    const batch = await (await engine.submit(pipeline, options.itemsPath)).wait();
    seconds = elapsedSeconds(startedAt);
    checkCount("items that succeeded", batch.counts.succeeded, items);
    if (signs) await engine.waitForSubscribers({ withinMs: SIGNED_WITHIN_MS });
  } finally {
    await engine.close();
  }
  const bytes = statSync(store).size;
  const records = items * states.length;
  return {
    itemsPerSecond: items / seconds,
    bytesPerItem: bytes / items,
    ...(records > 0 && { bytesPerRecord: bytes / records }),
  };
}

await runSubject(measureLedger);
