/**
 * 64 appenders in four processes write into the ledger of one batch at once. The chain never forks,
 * and the store and the export return every record byte for byte.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import type { LedgerLink } from "../../src/ports/store/ledger-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { exportLedger } from "../../src/runtime/evidence/ledger-export.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { openStore } from "../../src/stores/open-store.ts";
import { findBreak, readChain } from "../support/ledger-reading.ts";
import { makePlace } from "../conformance/postgres-rig.ts";
import { verifyNaively } from "../support/naive-verifier.ts";
import { newSigningKey, exportPem } from "../support/ledger-export.ts";

const PROCESSES = 4;
const APPENDERS = 16;
const CHUNKS = 512;
const CHUNK_ITEMS = 4;
const SCRIPT = fileURLToPath(new URL("appender-process.ts", import.meta.url));
const TEST_LIMIT_MS = 180_000;

const children: ChildProcess[] = [];
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

const BATCH = "b-appendingaaaa";

async function plan(store: Store): Promise<void> {
  const step = { name: "appending", chunkSize: CHUNK_ITEMS, maxRedrives: 0, carries: false };
  await store.submit({
    id: BATCH,
    pipeline: "appending",
    version: "1",
    lane: "appending",
    key: null,
    input: "{}",
    inputHash: "input",
    resume: false,
    open: false,
    sealWithinMs: 60_000,
    deadlineAt: null,
    settings: {
      strict: false,
      steps: [{ ...step, budget: null, canary: null }],
      ledger: { item: true },
    },
  });
  const { batch } = await store.startSlicing(BATCH, false);
  await store.plan({
    batch: BATCH,
    step: 0,
    afterChunks: 0,
    part: "all",
    chunks: Array.from({ length: CHUNKS }, (_, n) => ({
      items: CHUNK_ITEMS,
      locator: String(n),
      manifest: null,
      keys: null,
    })),
    cursor: "end",
    fence: batch.sliceFence,
  });
  await store.finishSlicing(BATCH, CHUNKS, batch.sliceFence);
}

interface Said {
  readonly name: string;
  readonly lines: string;
  readonly details: string | null;
}

/** What a process has written when it is done. */
async function startProcess(address: string): Promise<{ go: () => void; said: Promise<Said[]> }> {
  const child = spawn(process.execPath, [SCRIPT, address, BATCH, String(APPENDERS)], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  children.push(child);
  let [out, err] = ["", ""];
  const ready = Promise.withResolvers<void>();
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    if (out.startsWith("ready\n")) ready.resolve();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const said = new Promise<Said[]>((resolve, reject) => {
    child.on("close", (code) => {
      if (code !== 0) reject(new Error(`an appender's process exited with ${code}: ${err}`));
      else
        resolve(
          out
            .trimEnd()
            .split("\n")
            .slice(1)
            .map((line) => JSON.parse(line) as Said),
        );
    });
  });
  await Promise.race([ready.promise, said]);
  return { go: () => child.stdin.write("go\n"), said };
}

const places: Readonly<Record<string, () => Promise<string>>> = {
  sqlite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-append-"));
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
    return join(folder, "store.db");
  },
  postgres: async () => {
    const place = await makePlace();
    return place.address;
  },
};

test.each(Object.entries(places))(
  "64 appenders in four processes on %s write one chain and keep every byte",
  async (_name, makeAddress) => {
    const address = await makeAddress();
    const store = await openStore(address, { clock: systemClock, random: systemRandom });
    cleanups.push(() => store.close());
    await plan(store);
    const started = await Promise.all(
      Array.from({ length: PROCESSES }, () => startProcess(address)),
    );
    for (const { go } of started) go();
    const said = (await Promise.all(started.map((one) => one.said))).flat();
    expect(said).toHaveLength(2 * CHUNKS);

    const links = await readChain(store, BATCH);
    expect(findBreak(links)).toBeNull();
    const kept = new Map<string, LedgerLink["block"]>(
      links
        .filter(({ block }) => block !== null)
        .map(({ body, block }) => {
          const { chunk, fence, block: of } = (JSON.parse(body) as { data: Told }).data;
          return [`${chunk}/${fence}/${of.number}`, block] as const;
        }),
    );
    for (const { name, lines, details } of said) expect(kept.get(name)).toEqual({ lines, details });
    expect(kept.size).toBe(said.length);

    const pieces: Uint8Array[] = [];
    for await (const piece of exportLedger(store, BATCH)) pieces.push(piece);
    const exported = Buffer.concat(pieces);
    expect(await verifyExport([exported], { trusted: [] })).toMatchObject({
      kind: "intact",
      items: 2 * CHUNKS * CHUNK_ITEMS,
      ended: "succeeded",
    });
    expect(verifyNaively(exported, { pem: exportPem(newSigningKey()) })).toBeNull();
    const text = exported.toString();
    for (const { lines, details } of said) {
      expect(text.includes(`\n${lines}${details}`)).toBe(true);
    }
  },
  TEST_LIMIT_MS,
);

interface Told {
  readonly chunk: number;
  readonly fence: number;
  readonly block: { readonly number: number };
}
