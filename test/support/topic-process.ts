/**
 * A separate process that runs one batch with messages and consumes them into files:
 *   node topic-process.ts <folder> <items>
 * Each item emits twice, with a pause in between. The process prints `emitted` now and then while it
 * works and `done` when all is delivered. When it is started again, it continues with the rest.
 */
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { jsonlSink } from "../../src/sinks/jsonl.ts";

const [folder = ".", items = "100"] = process.argv.slice(2);
const store = await openSqliteStore(join(folder, "store.db"), {
  clock: systemClock,
  random: systemRandom,
});
const engine = await Engine.start(store, {}, { sweepMs: 50 });

let emitted = 0;
const pipeline = definePipeline({
  name: "mails",
  chunkSize: 20,
  concurrency: 8,
  topics: ["email", "sms"],
  process: async (n: number, { emit }) => {
    emit("email", { n });
    await wait(1);
    emit("sms", { n });
    if (++emitted % 50 === 0) console.log("emitted");
  },
});

const SMALL_BYTES = 4_096;
for (const topic of ["email", "sms"]) {
  const sink = jsonlSink({ folder: join(folder, "out"), maxBytes: SMALL_BYTES });
  engine.consume(topic, "files", sink, { batch: 20 });
}
const numbers = Array.from({ length: Number(items) }, (_, n) => n);
const batch = await engine.submit(pipeline, numbers, { key: "mails" });
await batch.wait();
await engine.waitForSubscribers({ withinMs: 60_000 });
await engine.close();
await store.close();
console.log("done");
