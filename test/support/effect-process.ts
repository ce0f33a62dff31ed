/**
 * A separate process that runs one batch. Each item writes a row into a table beside the store:
 *   node effect-process.ts <store> <table> <items>
 * The table itself allows duplicate rows. Some items fail at first. The process prints `started` now
 * and then while it works and `done` at the end. When it is started again, it continues.
 */
import { setTimeout as wait } from "node:timers/promises";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { openStore } from "../../src/stores/open-store.ts";

const [address = "", table = "", items = "100"] = process.argv.slice(2);
const store = await openStore(address, { clock: systemClock, random: systemRandom });
const places = store.dialect === "postgres" ? "$1, $2" : "?, ?";
// Flushed often, so that kills meet many commits.
const engine = await Engine.start(
  store,
  { flushMs: 10, pollMs: 50, leaseMs: 1_000 },
  { renewMs: 300, sweepMs: 50 },
);

let started = 0;
const pipeline = definePipeline({
  name: "effects",
  chunkSize: 20,
  concurrency: 8,
  maxRedrives: 0,
  retry: { attempts: 3, baseMs: 1, capMs: 5 },
  key: (n: number) => `k${n}`,
  process: async (n: number, { commitWith, key, attempt }) => {
    if (++started % 40 === 0) console.log("started");
    commitWith(`INSERT INTO ${table} (key, n) VALUES (${places})`, [key, n]);
    await wait(1);
    if (n % 10 === 3 && attempt === 1) throw new Error("not at the first time");
  },
});

const numbers = Array.from({ length: Number(items) }, (_, n) => n);
const batch = await engine.submit(pipeline, numbers, { key: "effects" });
await batch.wait();
await engine.close();
await store.close();
console.log("done");
