/**
 * The store's own lease-and-settle speed while many chunks wait: each commit settles what the one
 * before it leased and leases the next, with no handler between. It runs in rounds. After each the
 * backlog is filled up again, off the clock, so `waiting` chunks (less one round at most) wait all
 * the time and a short backlog gets as many samples as a long one.
 */
import { join } from "node:path";
import pg from "pg";
import { createOutcomeMap, SUCCEEDED, setOutcome } from "../../src/core/items/outcome-map.ts";
import type { StepSettings } from "../../src/core/batch/step.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { LeasedChunk, LeaseRequest, Report } from "../../src/ports/store/worker-store.ts";
import { openPostgres } from "../../dist/postgres.js";
import { openSqlite } from "../../dist/sqlite.js";
import { checkCount, type Figures, runSubject } from "../subject-process.ts";

interface BacklogOptions {
  readonly waiting: number;
  /** Chunks settled, and chunks leased, in one commit. */
  readonly perCommit: number;
  /** Chunks to settle in total. */
  readonly settled: number;
  /** The store is a database there; otherwise it is a file. */
  readonly server?: string;
}

const BATCH = "backlog";
const PIPELINE = "bench";
const VERSION = "1";
const ROUND_CHUNKS = 512;
const CHUNKS_PER_PLAN = 10_000;
const HOUR_MS = 3_600_000;
const STEP: StepSettings = {
  name: "settle",
  chunkSize: 1,
  maxRedrives: 0,
  carries: false,
  budget: null,
  canary: null,
};

async function openBatch(store: Store): Promise<void> {
  await store.submit({
    id: BATCH,
    pipeline: PIPELINE,
    version: VERSION,
    lane: "bench",
    key: null,
    input: null,
    inputHash: "",
    resume: false,
    open: true,
    sealWithinMs: HOUR_MS,
    deadlineAt: null,
    settings: { strict: false, steps: [STEP] },
  });
  const { batch } = await store.startSlicing(BATCH, false);
  await store.finishSlicing(BATCH, 0, batch.sliceFence);
}

async function addChunks(store: Store, planned: number, chunks: number): Promise<void> {
  for (let done = 0; done < chunks; done += CHUNKS_PER_PLAN) {
    const size = Math.min(CHUNKS_PER_PLAN, chunks - done);
    const result = await store.plan({
      batch: BATCH,
      step: 0,
      afterChunks: planned + done,
      chunks: Array.from({ length: size }, (_, index) => ({
        items: 1,
        locator: `${planned + done + index}`,
        manifest: null,
        keys: null,
      })),
      cursor: null,
      fence: 1,
      part: `from-${planned + done}`,
    });
    if (result.kind !== "planned") throw new Error(`the plan was answered by ${result.kind}`);
  }
}

function settleChunk({ batch, step, chunk, fence }: LeasedChunk): Report {
  const outcomes = createOutcomeMap(1);
  setOutcome(outcomes, 0, SUCCEEDED);
  return {
    batch,
    step,
    chunk,
    fence,
    outcomes,
    failures: [],
    results: [],
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
    commits: [],
    abandoned: [],
    limitWait: null,
    starting: [],
    intent: "yield",
    busyMs: 0,
  };
}

/** Leases and settles one round's chunks. Returns how many it settled. */
async function runRound(store: Store, lease: LeaseRequest): Promise<number> {
  let { leased } = await store.work([], lease);
  let settled = 0;
  while (leased.length > 0) {
    const isLast = settled + leased.length >= ROUND_CHUNKS;
    const result = await store.work(leased.map(settleChunk), isLast ? null : lease);
    settled += result.reports.filter((report) => report === "settled").length;
    leased = result.leased;
  }
  return settled;
}

/** A server continues to write and to analyse the rows that filled it: wait until that is over. */
async function letRest(server: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await client.query("VACUUM (ANALYZE)");
    await client.query("CHECKPOINT");
  } finally {
    await client.end();
  }
}

async function measureBacklog(
  options: BacklogOptions & { readonly folder: string },
): Promise<Figures> {
  const store =
    options.server === undefined
      ? await openSqlite(join(options.folder, "sluice.db"))
      : await openPostgres(options.server);
  try {
    await openBatch(store);
    await addChunks(store, 0, options.waiting);
    if (options.server !== undefined) await letRest(options.server);
    const worker = await store.registerWorker({ name: "bench" });
    const lease: LeaseRequest = {
      worker,
      pipeline: PIPELINE,
      versions: [VERSION],
      step: 0,
      batch: null,
      itemsMax: options.perCommit,
      chunksMax: options.perCommit,
      leaseMs: HOUR_MS,
      slots: 1,
      keeps: [],
    };
    let settled = 0;
    let elapsedMs = 0;
    // The first round warms the code up and is not timed.
    while (settled < options.settled + ROUND_CHUNKS) {
      const startedAt = performance.now();
      const round = await runRound(store, lease);
      if (settled > 0) elapsedMs += performance.now() - startedAt;
      checkCount("chunks settled in a round", round, ROUND_CHUNKS);
      await addChunks(store, options.waiting + settled, round);
      settled += round;
    }
    const batch = await store.getBatch(BATCH);
    checkCount("items that succeeded", batch?.counts.succeeded ?? 0, settled);
    const seconds = elapsedMs / 1000;
    return { seconds, chunksPerSecond: (settled - ROUND_CHUNKS) / seconds };
  } finally {
    await store.close();
  }
}

await runSubject(measureBacklog);
