/**
 * Real processes on a real file, killed at seeded moments and started again. Before each restart the
 * store is looked at through a connection of its own: what is settled then must never run again.
 *
 *   SLUICE_CHAOS_ITEMS=1000000 SLUICE_CHAOS_KILLS=50 SLUICE_SEED=7 npx vitest run test/chaos
 */
import { hash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { verifyChain } from "../../src/core/chain.ts";
import { type BatchLine, type Ending, type Running, Workspace } from "../support/command-line.ts";
import { toWords } from "../support/outcome-words.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";

const ITEMS = Number(process.env["SLUICE_CHAOS_ITEMS"] ?? 60_000);
const KILLS = Number(process.env["SLUICE_CHAOS_KILLS"] ?? 10);
const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const TEST_LIMIT_MS = 120_000 + ITEMS * 2;
/** Every line of a log is this long, so that its size tells how many there are. */
const LINE_CHARS = 10;
const RUN = ["run", "pipeline.ts", "--input", "items.jsonl", "--key", "chaos", "--json"];
const STORE = ".sluice/sluice.db";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
  writePipeline();
  work.writeItems(ITEMS);
});
afterEach(() => work.remove());

/** Writes down each item when it starts, in a log of its own process, and takes a moment over it. */
function writePipeline(): void {
  work.write(
    "pipeline.ts",
    `import { definePipeline, jsonl } from "sluice";
import { openSync, writeSync } from "node:fs";
const log = openSync("ran-" + String(Date.now()) + "-" + process.pid + ".log", "a");
export default definePipeline({
  name: "chaos",
  chunkSize: 250,
  concurrency: 64,
  source: ({ input }: { input: string }) => jsonl<{ n: number }>(input),
  process: async ({ n }: { n: number }) => {
    writeSync(log, String(n).padStart(${LINE_CHARS - 1}, "0") + "\\n");
    await new Promise((resolve) => setTimeout(resolve, 1));
  },
});
`,
  );
}

/**
 * A process that is stopped inside a transaction keeps the file's lock, and nobody can go on: that
 * is SQLite's way, and not what is asked here.
 */
async function stopBetweenCommits(running: Running): Promise<void> {
  await vi.waitFor(
    () => {
      running.signal("SIGSTOP");
      const database = new DatabaseSync(work.at(STORE), { timeout: 0 });
      try {
        database.exec("BEGIN IMMEDIATE; ROLLBACK");
      } catch (error) {
        running.signal("SIGCONT");
        throw error;
      } finally {
        database.close();
      }
    },
    { timeout: TEST_LIMIT_MS, interval: 3 },
  );
}

/** In the order in which the processes began. */
function listLogs(): string[] {
  return readdirSync(work.path)
    .filter((name) => /^ran-.*\.log$/.test(name))
    .toSorted();
}

function readLog(name: string): number[] {
  return work
    .read(name)
    .split("\n")
    .filter((line) => line.length === LINE_CHARS - 1)
    .map(Number);
}

/** How many items were started so far, by all processes. */
function countStarted(): number {
  const bytes = listLogs().reduce((sum, name) => sum + statSync(work.at(name)).size, 0);
  return Math.floor(bytes / LINE_CHARS);
}

/** What the store says of every item, through a fresh connection. */
function readSettled(): Set<number> {
  const settled = new Set<number>();
  const database = new DatabaseSync(work.at(STORE), { readOnly: true });
  try {
    const rows = database.prepare("SELECT start, finish, outcomes FROM chunk").all() as unknown as {
      start: number;
      finish: number;
      outcomes: Uint8Array;
    }[];
    for (const { start, finish, outcomes } of rows) {
      for (const [at, word] of toWords(outcomes, finish - start).entries()) {
        if (word !== "pending") settled.add(start + at);
      }
    }
  } finally {
    database.close();
  }
  return settled;
}

function checkRecords(): void {
  const database = new DatabaseSync(work.at(STORE), { readOnly: true });
  try {
    const sql = "SELECT type, body, hash FROM record ORDER BY seq";
    const rows = database.prepare(sql).all() as unknown as {
      type: string;
      body: string;
      hash: string;
    }[];
    expect(verifyChain(rows, (text) => hash("sha256", text)).kind).toBe("intact");
    expect(rows.filter(({ type }) => type === "batch.ended")).toHaveLength(1);
  } finally {
    database.close();
  }
}

function readView({ stdout, stderr }: Ending): BatchLine {
  const last = stdout.trimEnd().split("\n").at(-1) ?? "";
  if (last === "") throw new Error(`nothing on stdout\n${stderr}`);
  return JSON.parse(last) as BatchLine;
}

/** Resolves when that many items were started, or the process has ended before. */
async function waitForStarts(running: Running, starts: number): Promise<void> {
  await vi.waitUntil(() => countStarted() >= starts || running.isOver, {
    timeout: TEST_LIMIT_MS,
    interval: 2,
  });
}

test(
  `${KILLS} kills at seeded moments: every item is accounted for, and what was settled never runs again`,
  async () => {
    const random = new SeededRandom(SEED);
    const moments = Array.from({ length: KILLS }, () => Math.ceil(random.next() * ITEMS * 0.95));
    const settledAt: { readonly logs: number; readonly settled: Set<number> }[] = [];
    let killed = 0;
    for (const moment of moments.toSorted((a, b) => a - b)) {
      const running = work.start(RUN);
      await waitForStarts(running, moment);
      running.signal("SIGKILL");
      const { signal, code, stderr } = await running.ended;
      if (signal === "SIGKILL") killed++;
      // It may have been quicker than its executioner, but never have failed.
      expect(signal === "SIGKILL" || code === 0, `seed ${SEED}: ${stderr}`).toBe(true);
      settledAt.push({ logs: listLogs().length, settled: readSettled() });
    }
    expect(killed).toBeGreaterThan(KILLS / 2);
    const ending = await work.start(RUN).ended;
    const view = readView(ending);
    expect(ending.code, ending.stderr).toBe(0);
    expect(view).toMatchObject({
      state: "succeeded",
      planned: ITEMS,
      succeeded: ITEMS,
      failed: 0,
      cancelled: 0,
      pending: 0,
    });
    const logs = listLogs().map(readLog);
    for (const { logs: before, settled } of settledAt) {
      const again = logs
        .slice(before)
        .flat()
        .filter((n) => settled.has(n));
      expect(again.slice(0, 10), `seed ${SEED}: settled items ran again`).toEqual([]);
    }
    expect(new Set(logs.flat()).size).toBe(ITEMS);
    expect(readSettled().size).toBe(ITEMS);
    checkRecords();
  },
  TEST_LIMIT_MS,
);

const SHORT_LEASE = { SLUICE_LEASE_MS: "600", SLUICE_RENEW_MS: "200", SLUICE_SWEEP_MS: "100" };

test(
  "a process that sleeps past its leases and wakes up after the end changes nothing",
  async () => {
    const zombie = work.start(RUN, { env: SHORT_LEASE });
    await waitForStarts(zombie, ITEMS / 3);
    await stopBetweenCommits(zombie);
    const [zombieLog = ""] = listLogs();
    const asleep = readLog(zombieLog).length;
    const successor = await work.start(RUN, { env: SHORT_LEASE }).ended;
    expect(successor.code, successor.stderr).toBe(0);
    expect(readView(successor)).toMatchObject({ state: "succeeded", succeeded: ITEMS, pending: 0 });
    zombie.signal("SIGCONT");
    const woken = await zombie.ended;
    expect(woken.code, woken.stderr).toBe(0);
    expect(readView(woken)).toMatchObject({ state: "succeeded", succeeded: ITEMS, pending: 0 });
    // Not one item was started by the one that had been asleep.
    expect(readLog(zombieLog)).toHaveLength(asleep);
    checkRecords();
  },
  TEST_LIMIT_MS,
);

test(
  "one that wakes up in the middle goes on with what is left, and with nothing else",
  async () => {
    const zombie = work.start(RUN, { env: SHORT_LEASE });
    await waitForStarts(zombie, ITEMS / 4);
    await stopBetweenCommits(zombie);
    const [zombieLog = ""] = listLogs();
    const asleep = readLog(zombieLog).length;
    const successor = work.start(RUN, { env: SHORT_LEASE });
    await waitForStarts(successor, ITEMS / 2);
    const settled = readSettled();
    zombie.signal("SIGCONT");
    for (const { code, stderr, stdout } of [await zombie.ended, await successor.ended]) {
      expect(code, stderr).toBe(0);
      expect(stdout).toContain(`"succeeded":${ITEMS}`);
    }
    const again = readLog(zombieLog)
      .slice(asleep)
      .filter((n) => settled.has(n));
    expect(again.slice(0, 10)).toEqual([]);
    expect(new Set(listLogs().flatMap(readLog)).size).toBe(ITEMS);
    checkRecords();
  },
  TEST_LIMIT_MS,
);
