/**
 * A process that emits and consumes is killed at seeded moments, and others replace it. The topics
 * hold exactly the messages of the items' outcomes, and the files every one of them, in whole
 * lines.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";

const ITEMS = 800;
const KILLS = 6;
const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const PROGRAM = fileURLToPath(new URL("../support/topic-process.ts", import.meta.url));
const TOPICS = ["email", "sms"] as const;

let folder: string;
let child: ChildProcess | null = null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-topics-"));
});
afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

interface Life {
  readonly said: string;
  readonly wasKilled: boolean;
}

/** Runs the process and kills it when it has printed `emitted` this often. */
function runProcess(killAfter: number): Promise<Life> {
  const started = spawn(process.execPath, [PROGRAM, folder, String(ITEMS)]);
  child = started;
  let said = "";
  const hear = (part: Buffer): void => {
    said += part.toString();
    if (said.split("emitted").length > killAfter) started.kill("SIGKILL");
  };
  started.stdout.on("data", hear);
  started.stderr.on("data", hear);
  return new Promise((resolve) => {
    started.on("close", (_code, signal) => resolve({ said, wasKilled: signal === "SIGKILL" }));
  });
}

/** Without their batch, in the order of items. */
async function readIds(store: Store, topic: string): Promise<string[]> {
  const messages = await store.readMessages(topic, 0, 10 * ITEMS);
  return messages.map(({ id }) => id.slice(id.indexOf("/") + 1)).toSorted();
}

/** Each line is whole; ids without their batch, each once. */
function readWritten(topic: string): string[] {
  const out = join(folder, "out");
  const lines = readdirSync(out)
    .filter((name) => name.startsWith(topic))
    .flatMap((name) => readFileSync(join(out, name), "utf8").split("\n").slice(0, -1));
  const ids = lines.map((line) => (JSON.parse(line) as { id: string }).id);
  return [...new Set(ids.map((id) => id.slice(id.indexOf("/") + 1)))].toSorted();
}

test(`after ${KILLS} kills between emits every message is in its topic once, and every file has it`, async () => {
  const random = new SeededRandom(SEED);
  for (let kill = 0; kill < KILLS; kill++) {
    const { said, wasKilled } = await runProcess(1 + Math.floor(random.next() * 3));
    // A process that ended before its kill proves nothing.
    expect(wasKilled, `seed ${SEED}, life ${kill}: ${said}`).toBe(true);
  }
  const { said } = await runProcess(Number.POSITIVE_INFINITY);
  expect(said, `seed ${SEED}`).toContain("done");
  const store = await openSqliteStore(join(folder, "store.db"), {
    clock: systemClock,
    random: systemRandom,
  });
  try {
    for (const [nth, topic] of TOPICS.entries()) {
      const expected = Array.from({ length: ITEMS }, (_, n) => `0/${n}/1/${nth}`).toSorted();
      expect(await readIds(store, topic), `seed ${SEED}`).toEqual(expected);
      expect(readWritten(topic), `seed ${SEED}`).toEqual(expected);
    }
    const [email] = await store.listTopics();
    expect(email).toMatchObject({ topic: "email", messages: ITEMS, groups: [{ lag: 0 }] });
  } finally {
    await store.close();
  }
});
