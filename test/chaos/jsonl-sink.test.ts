/**
 * The disk of a jsonlSink is full or read-only for a while. The reason is reported, messages wait,
 * and later every one of them is in the files, in whole lines.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hash } from "node:crypto";
import { afterEach, beforeEach, expect, test, type TestContext, vi } from "vitest";
import { createMemoryStore } from "../../src/adapters/memory/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import type { LogEntry } from "../../src/runtime/system/log.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { jsonlSink } from "../../src/sinks/jsonl.ts";
import { SmallDisk } from "../support/small-disk.ts";
import { trySystemProgram } from "../support/system-program.ts";

const DISK_BYTES = 262_144;
const ROOMY_BYTES = 16 * 1_048_576;
const ITEMS = 200;
const WAIT_MS = 60_000;

let folder: string;
let disk: SmallDisk | null = null;
let engine: Engine | null = null;
const logs: LogEntry[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-sink-"));
  logs.length = 0;
});
afterEach(async () => {
  await engine?.close({ drainMs: 0 });
  disk?.unmount();
  rmSync(folder, { recursive: true, force: true });
  [disk, engine] = [null, null];
});

const pipeline = definePipeline({
  name: "mails",
  topics: ["email"],
  process: (n: number, { emit }) => emit("email", { n, text: "x".repeat(4_000) }),
});

async function start(
  context: TestContext,
): Promise<{ readonly small: SmallDisk; readonly on: Engine }> {
  const small = SmallDisk.mount(join(folder, "disk"), DISK_BYTES);
  if (typeof small === "string") return context.skip(small);
  disk = small;
  const store = createMemoryStore({ clock: systemClock, sha256: (text) => hash("sha256", text) });
  const on = await Engine.start(store, { log: (entry) => void logs.push(entry) });
  engine = on;
  return { small, on };
}

async function emitAll(on: Engine): Promise<void> {
  const items = Array.from({ length: ITEMS }, (_, n) => n);
  await (await on.submit(pipeline, items)).wait();
}

function consume(on: Engine, path: string): void {
  const backoff = { baseMs: 5, capMs: 20 };
  on.consume("email", "files", jsonlSink({ folder: path, maxBytes: 100_000, backoff }), {
    batch: 10,
  });
}

/** The reason was reported in these words. */
async function waitForLog(words: string): Promise<void> {
  await vi.waitUntil(() => logs.some(({ message }) => message.includes(words)), {
    timeout: WAIT_MS,
  });
}

/** Every line of every file, as its item. */
function readItems(path: string): number[] {
  return readdirSync(path)
    .flatMap((name) => readFileSync(join(path, name), "utf8").split("\n").slice(0, -1))
    .map((line) => (JSON.parse(line) as { data: { n: number } }).data.n);
}

async function expectAll(on: Engine, path: string): Promise<void> {
  expect(await on.waitForSubscribers({ withinMs: WAIT_MS })).toBe(true);
  // None of them twice: a partial write was rolled back.
  expect(readItems(path).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: ITEMS }, (_, n) => n),
  );
}

test("a full disk is reported, messages wait, and all of them arrive when there is space", async (context) => {
  const { small, on } = await start(context);
  const path = join(small.path, "out");
  await emitAll(on);
  consume(on, path);
  await waitForLog(`${path} cannot be written: the disk is full (ENOSPC)`);
  expect((await on.topic("email").look()).groups[0]?.lag).toBeGreaterThan(0);
  small.resize(ROOMY_BYTES);
  await expectAll(on, path);
});

test("a read-only disk is reported, messages wait, and all of them arrive when it is writable", async (context) => {
  const { small, on } = await start(context);
  small.resize(ROOMY_BYTES);
  const refused = trySystemProgram("mount", "-o", "remount,ro", small.path);
  if (refused !== null) return context.skip(refused);
  const path = join(small.path, "out");
  await emitAll(on);
  consume(on, path);
  await waitForLog(`${path} cannot be written: it is on a read-only disk (EROFS)`);
  expect(trySystemProgram("mount", "-o", "remount,rw", small.path)).toBeNull();
  await expectAll(on, path);
});
