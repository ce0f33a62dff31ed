/**
 * Back-pressure: a producer has far more large documents than the limits allow. It has to wait, and
 * neither memory nor the spool grows with its list.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { configureDemo } from "../cli/demo.ts";
import type { DrillReport } from "./drill.ts";
import { writeLargePdf } from "./large-pdf.ts";
import { readTreeBytes } from "./resident-memory.ts";

export interface FloodSize {
  readonly documents: number;
  readonly documentBytes: number;
}

const COMMAND = fileURLToPath(new URL("../main.ts", import.meta.url));
const SITE = "flooding";
const LOOK_EVERY_MS = 100;
const MIB = 1_048_576;
/** Tiny, compared with the rest. */
const LIMITS = {
  concurrency: { all: 2, site: 2 },
  feed: { aheadMax: 10, batchMax: 20 },
  pool: { size: 1 },
  rate: { perSecond: 1_000, burst: 1_000 },
};
/** An entry is long, so that pipes hold few of them: entries in pipes are not taken yet. */
const PADDING = "x".repeat(1_500);
/**
 * What pipes hold, about 400 KiB with their streams, and the entries of a part and of two batches.
 */
const AHEAD_MAX = 300;
/** An allowance for garbage collection and first use. */
const GROWTH_BYTES_MAX = 80 * MIB;
const TREE_BYTES_MAX = 600 * MIB;

export async function drillBackPressure(size: FloodSize): Promise<DrillReport> {
  const folder = await mkdtemp(join(tmpdir(), "site-packets-flood-"));
  const content = writeLargePdf(size.documentBytes);
  let asked = 0;
  const portal = createServer((_request, response) => {
    asked++;
    response.end(content);
  }).listen(0, "127.0.0.1");
  try {
    await once(portal, "listening");
    const { port } = portal.address() as AddressInfo;
    const config = configureDemo(new Map([[SITE, `http://127.0.0.1:${port}`]]), LIMITS);
    await writeFile(join(folder, "config.json"), JSON.stringify(config));
    return await flood(folder, size, () => asked);
  } finally {
    portal.close();
    portal.closeAllConnections();
    await rm(folder, { recursive: true, force: true });
  }
}

async function flood(
  folder: string,
  { documents, documentBytes }: FloodSize,
  countAsked: () => number,
): Promise<DrillReport> {
  const data = join(folder, "data");
  const args = ["--json", "--data", data, "feed", "--site", SITE];
  const child = spawn(
    process.execPath,
    [COMMAND, ...args, "--config", join(folder, "config.json")],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  const gone = once(child, "close") as Promise<[number | null]>;
  // A command that ends early is reported by its exit code.
  child.stdin.on("error", () => {});
  let output = "";
  child.stdout.on("data", (text: Buffer) => (output += text.toString()));
  let told = 0;
  let waited = 0;
  let ahead = 0;
  const samples: number[] = [];
  let spooled = 0;
  const timer = setInterval(() => {
    ahead = Math.max(ahead, told - countAsked());
    void readTreeBytes(child.pid ?? 0).then((bytes) => bytes > 0 && samples.push(bytes));
    void countSpooled(join(data, "spool")).then((files) => (spooled = Math.max(spooled, files)));
  }, LOOK_EVERY_MS);
  try {
    for (let number = 0; number < documents; number++) {
      const entry = {
        site: SITE,
        document: `flood-${number}`,
        type: "other",
        schemaVersion: "v2.0",
        url: `/${number}?${PADDING}`,
      };
      if (!child.stdin.write(`${JSON.stringify(entry)}\n`)) {
        waited++;
        await Promise.race([once(child.stdin, "drain"), gone]);
      }
      told++;
    }
    child.stdin.end();
    const [code] = await gone;
    const archived = output
      .split("\n")
      .filter((line) => line !== "")
      .reduce((sum, line) => sum + (JSON.parse(line) as { archived: number }).archived, 0);
    const half = Math.floor(samples.length / 2);
    const before = Math.max(...samples.slice(0, half));
    const after = Math.max(...samples.slice(half));
    const show = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;
    return {
      seen: [
        `${archived} documents of ${show(documentBytes)}: the producer waited ${waited} times, and was never more than ${ahead} ahead`,
        `memory of all processes at most ${show(before)} in the first half, ${show(after)} in the second`,
        `at most ${spooled} documents in the spool`,
      ],
      faults: [
        ...(code === 0 ? [] : [`exit ${code}`]),
        ...(archived === documents ? [] : [`${archived} of ${documents} archived`]),
        ...(waited > 0 && ahead <= AHEAD_MAX ? [] : [`the producer was ${ahead} ahead`]),
        ...(after - before <= GROWTH_BYTES_MAX ? [] : [`it grew by ${show(after - before)}`]),
        ...(Math.max(before, after) <= TREE_BYTES_MAX ? [] : [`it held ${show(after)}`]),
        ...(spooled <= 2 * LIMITS.feed.batchMax ? [] : [`${spooled} documents were in the spool`]),
      ],
    };
  } finally {
    clearInterval(timer);
    child.kill("SIGKILL");
  }
}

async function countSpooled(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names.filter((name) => name.endsWith(".bin")).length;
}
