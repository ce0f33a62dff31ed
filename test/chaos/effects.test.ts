/**
 * A process whose items leave rows in a table beside the store is killed at seeded moments, and others
 * take its place: there is exactly one row for each item that succeeded, and none for any other.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { systemRandom } from "../../src/runtime/system-random.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";

const ITEMS = 2_000;
const KILLS = 8;
const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const PROGRAM = fileURLToPath(new URL("../support/effect-process.ts", import.meta.url));
const isBad = (n: number): boolean => n % 50 === 7;

let folder: string;
let child: ChildProcess | null = null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-effects-"));
});
afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

interface Life {
  readonly said: string;
  readonly wasKilled: boolean;
}

/** Runs the process; it is killed when it has said `started` so often, and a moment after that. */
function runProcess(killAfter: number, afterMs: number): Promise<Life> {
  const started = spawn(process.execPath, [PROGRAM, folder, String(ITEMS)]);
  child = started;
  let said = "";
  const hear = (part: Buffer): void => {
    said += part.toString();
    if (said.split("started").length > killAfter)
      setTimeout(() => started.kill("SIGKILL"), afterMs);
  };
  started.stdout.on("data", hear);
  started.stderr.on("data", hear);
  return new Promise((resolve) => {
    started.on("close", (_code, signal) => resolve({ said, wasKilled: signal === "SIGKILL" }));
  });
}

function readRows(): number[] {
  const db = new DatabaseSync(join(folder, "store.db"), { timeout: 10_000 });
  try {
    return db
      .prepare("SELECT n FROM effect ORDER BY n")
      .all()
      .map(({ n }) => Number(n));
  } finally {
    db.close();
  }
}

test(`${KILLS} kills: one row for each item that succeeded, and none for any other`, async () => {
  const random = new SeededRandom(SEED);
  for (let kill = 0; kill < KILLS; kill++) {
    const after = 1 + Math.floor(random.next() * 4);
    const { said, wasKilled } = await runProcess(after, random.next() * 10);
    // One that came to its end before would prove nothing.
    expect(wasKilled, `seed ${SEED}, life ${kill}: ${said}`).toBe(true);
    const rows = readRows();
    expect(new Set(rows).size, `seed ${SEED}, life ${kill}`).toBe(rows.length);
  }
  const { said } = await runProcess(Number.POSITIVE_INFINITY, 0);
  expect(said, `seed ${SEED}`).toContain("done");
  const good = Array.from({ length: ITEMS }, (_, n) => n).filter((n) => !isBad(n));
  expect(readRows(), `seed ${SEED}`).toEqual(good);
  const store = await openSqliteStore(join(folder, "store.db"), {
    clock: systemClock,
    random: systemRandom,
  });
  try {
    const [batch] = await store.listBatches({ limit: 1 });
    expect(batch?.counts).toMatchObject({ succeeded: good.length, failed: ITEMS - good.length });
  } finally {
    await store.close();
  }
});
