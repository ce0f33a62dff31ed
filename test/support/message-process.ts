/**
 * One of several processes that emit or consume: `node message-process.ts <options as JSON>`. It
 * runs until it is told to close or is killed. An emitter emits one message for each item. A
 * consumer writes down the item number of each message before it acknowledges it.
 */
import { openSync, writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import type { TopicMessage } from "../../src/ports/store/topic-message.ts";

export interface MessageOptions {
  readonly role: "emit" | "consume";
  readonly store: string;
  /** Where a consumer writes its messages, 4 bytes each. */
  readonly log: string;
}

export const TOPIC = "numbers";
export const GROUP = "counter";
const BATCH = 200;
/**
 * Between writing down and acknowledging: a consumer that is killed here gets its messages again.
 */
const WORK_MS = 10;

export const emitting = definePipeline({
  name: "emitting",
  chunkSize: 200,
  concurrency: 32,
  topics: [TOPIC],
  process: async (n: number, { emit }) => {
    emit(TOPIC, { n });
    await delay(1);
  },
});

/** The number of the item that emitted a message; its id and its data agree on it. */
export function readNumber({ id, n }: { readonly id: string; readonly n: unknown }): number {
  const [, step, item, drive, nth] = id.split("/");
  if (step !== "0" || item !== String(n) || drive !== "1" || nth !== "0") {
    throw new Error(`a message of no item: ${id} with ${String(n)}`);
  }
  return Number(item);
}

function consume(engine: Engine, log: string): void {
  const file = openSync(log, "a");
  let last = 0;
  const take = (messages: readonly TopicMessage[]): void => {
    const numbers = messages.map(({ id, data, position }) => {
      if (position <= last) throw new Error(`position ${position} after ${last}`);
      last = position;
      return readNumber({ id, n: (data as { n: unknown }).n });
    });
    writeSync(file, new Uint8Array(Uint32Array.from(numbers).buffer));
  };
  engine.consume(
    TOPIC,
    GROUP,
    async (messages) => {
      try {
        take(messages);
        await delay(WORK_MS);
      } catch (error) {
        // No retry: the test has found something.
        console.error(error);
        process.kill(process.pid, "SIGTERM");
        throw error;
      }
    },
    { batch: BATCH },
  );
}

async function main({ role, store: path, log }: MessageOptions): Promise<void> {
  const parts = { clock: systemClock, random: systemRandom, synchronous: "normal" as const };
  const store = await openSqliteStore(path, parts);
  const engine = await Engine.start(store, { ownsStore: true }, { sweepMs: 100 });
  engine.onFailure((error) => {
    throw error;
  });
  if (role === "emit") engine.work(emitting);
  else consume(engine, log);
  process.once("message", () => {
    const closed = engine.close().then(() => process.disconnect());
    closed.catch((error: unknown) => {
      throw error;
    });
  });
  process.send?.({ kind: "ready" });
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? "") as MessageOptions);
