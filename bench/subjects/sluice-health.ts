/**
 * How soon a worker answers health probes while its handlers block the loop: real `sluice work`
 * processes, as many as there are cores, probed all the time. No chunk may be leased twice
 * meanwhile.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { checkCount, type Figures, percentile, runSubject } from "../subject-process.ts";

interface HealthOptions {
  readonly folder: string;
  readonly seconds: number;
  readonly workers: number;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COMMAND = join(ROOT, "dist/cli/main.js");
const CALL_MS = 5_000;
const ASK_EVERY_MS = 20;
/** So short that every call would lose its lease without a renewal. */
const ENV = { SLUICE_LEASE_MS: "3000", SLUICE_LEASE_ITEMS_MAX: "1" };

const PIPELINE = `import { definePipeline } from "sluice";
export default definePipeline({
  name: "bench",
  chunkSize: 1,
  source: ({ input }: { input: number }) => Array.from({ length: input }, (_, n) => n),
  process: () => {
    const end = performance.now() + ${CALL_MS};
    while (performance.now() < end);
  },
});
`;

async function measureHealth({ folder, seconds, workers }: HealthOptions): Promise<Figures> {
  writeFileSync(join(folder, "bench.ts"), PIPELINE);
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(ROOT, join(folder, "node_modules/sluice"));
  const items = Math.max(workers, Math.round((seconds * 1_000 * workers) / CALL_MS));
  await end(startCommand(folder, "submit", "bench.ts", "--input-json", String(items)));
  const started = Array.from({ length: workers }, () =>
    startCommand(folder, "work", "bench.ts", "--until-idle", "--health-port", "0"),
  );
  const tookMs = (await Promise.all(started.map(askUntilEnd))).flat();
  checkCount("leases of a chunk", readHighestFence(folder), 1);
  return {
    p50Ms: percentile(tookMs, 0.5),
    p99Ms: percentile(tookMs, 0.99),
    maxMs: Math.max(...tookMs),
    answers: tookMs.length,
  };
}

function startCommand(folder: string, ...args: readonly string[]): ChildProcess {
  const env = { ...process.env, ...ENV };
  return spawn(process.execPath, [COMMAND, ...args], {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
}

async function end(child: ChildProcess): Promise<void> {
  const [code] = (await once(child, "exit")) as [number | null];
  checkCount("the exit code", code ?? -1, 0);
}

/** How long each answer took, from when the worker is healthy until it has nothing left to do. */
async function askUntilEnd(child: ChildProcess): Promise<readonly number[]> {
  const tookMs: number[] = [];
  const url = await readAddress(child);
  const over = new AbortController();
  const ended = end(child).finally(() => over.abort());
  while (!over.signal.aborted) {
    const askedAt = performance.now();
    const answer = await ask(url);
    if (answer?.ok === true) tookMs.push(performance.now() - askedAt);
    // Before it has begun, and when it ends, it does not work; no other reason is allowed.
    const wrong = answer?.reasons.filter(({ code }) => code !== "STOPPED") ?? [];
    if (wrong.length > 0) throw new Error(JSON.stringify(wrong));
    await delay(ASK_EVERY_MS);
  }
  await ended;
  return tookMs;
}

interface Answer {
  readonly ok: boolean;
  readonly reasons: readonly { readonly code: string }[];
}

/** Null when the server is gone. */
async function ask(url: string): Promise<Answer | null> {
  try {
    return (await (await fetch(url)).json()) as Answer;
  } catch {
    return null;
  }
}

function readAddress(child: ChildProcess): Promise<string> {
  let said = "";
  return new Promise((resolve, reject) => {
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const found = /health at (http:\S+)/.exec(said)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(`it ended without an address: ${said}`)));
  });
}

function readHighestFence(folder: string): number {
  const db = new DatabaseSync(join(folder, ".sluice/sluice.db"), { readOnly: true });
  try {
    return Number(db.prepare("SELECT max(fence) AS fence FROM chunk").get()?.["fence"]);
  } finally {
    db.close();
  }
}

await runSubject(measureHealth);
