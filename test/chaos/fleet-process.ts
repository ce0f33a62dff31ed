/**
 * One of several processes on a store: `node fleet-process.ts <options as JSON>`. It runs both
 * pipelines below until it is told to close or is killed, and submits batches on request. Each of
 * its items writes a line to this process's log when it starts and when it ends.
 */
import { openSync, writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import type { ItemContext } from "../../src/runtime/pipeline/contexts.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import type { FleetOptions, Order, Reply, Request } from "./fleet.ts";

const options = JSON.parse(process.argv[2] ?? "") as FleetOptions;
const store = await openSqliteStore(options.store, {
  clock: systemClock,
  random: systemRandom,
  synchronous: "normal",
});
const log = openSync(options.log, "a");
// A separate connection, so that a handler sees only committed data.
const witness = new DatabaseSync(options.store, { readOnly: true });
const readState = witness.prepare("SELECT state FROM batch WHERE id = ?");

function write(what: "start" | "end", { batch, lane, index }: ItemContext): void {
  const { state } = readState.get(batch) as { state: string };
  const at = systemClock.monotonicMs().toFixed(3);
  writeSync(log, `${what} ${batch} ${lane} ${index} ${at} ${state}\n`);
}

async function work(_n: number, context: ItemContext): Promise<number> {
  if (options.writes) write("start", context);
  if (options.workMs > 0) await delay(options.workMs, null, { signal: context.signal });
  if (options.writes) write("end", context);
  return process.pid;
}

const limits = { chunkSize: options.chunkSize, concurrency: options.concurrency };
const owned = definePipeline({ name: "owned", ...limits, process: work });
const sourced = definePipeline({
  name: "sourced",
  ...limits,
  source: ({ input }: { input: { items: number } }) => Array.from({ length: input.items }).keys(),
  process: work,
});

const { leaseItemsMax, sweepMs } = options;
const engine = await Engine.start(store, { leaseItemsMax, ownsStore: true }, { sweepMs });
engine.onFailure((error) => {
  throw error;
});
engine.work(owned);
engine.work(sourced);

async function submit({ pipeline, lane, items }: Order): Promise<string> {
  const handle =
    pipeline === "owned"
      ? await engine.submit(owned, Array.from({ length: items }).keys(), { lane })
      : await engine.submit(sourced, { items }, { lane });
  return handle.id;
}

function reply(message: Reply): Promise<void> {
  return new Promise((resolve) => {
    process.send?.(message, undefined, undefined, () => resolve());
  });
}

async function serve(request: Request): Promise<void> {
  if (request.kind === "close") {
    await engine.close();
    witness.close();
    process.disconnect();
    return;
  }
  const batches: string[] = [];
  for (const order of request.orders) batches.push(await submit(order));
  await reply({ kind: "submitted", batches });
  if (request.thenDie) process.kill(process.pid, "SIGKILL");
}

process.on("message", (request: Request) => {
  serve(request).catch((error: unknown) => {
    throw error;
  });
});
await reply({ kind: "ready" });
