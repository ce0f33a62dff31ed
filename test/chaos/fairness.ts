/**
 * Two tenants of very different size run in several processes on one file. While both have work,
 * the small one gets its fair share of handler time, however the large one splits its work.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { makeTenantPipeline, NUMBERS_PER_CALL } from "../support/tenant-process.ts";
import { Member } from "./fleet.ts";

export interface FairnessOptions {
  readonly concurrency: number;
  /** Of the large tenant. */
  readonly items: number;
  readonly lanes: number;
  readonly chunkSize: number;
  /** Of the small one, which has one lane. */
  readonly smallItems: number;
  readonly smallChunkSize: number;
  /** The weight of the small tenant; the large one has 1. */
  readonly weight: number;
}

interface Call {
  readonly tenant: number;
  readonly startAt: number;
  readonly endAt: number;
}

const PROCESSES = 4;
const PROGRAM = fileURLToPath(new URL("../support/tenant-process.ts", import.meta.url));
const [LARGE, SMALL] = [0, 1];
/** The small tenant's items are quicker: a share by number of items would be wrong. */
const WORK_MS = { large: 5, small: 2 };
/** In the period in which both have work, this much at each end is not judged. */
const CUT = 0.2;
const FAIR_MIN = 0.9;

/** Checks the small tenant's share of handler time. Returns it relative to the fair share. */
export async function checkFairness(options: FairnessOptions): Promise<number> {
  const { concurrency, weight } = options;
  const folder = mkdtempSync(join(tmpdir(), "sluice-fairness-"));
  const store = join(folder, "store.db");
  const tenants = [
    { name: "large", weight: 1, workMs: WORK_MS.large },
    { name: "small", weight, workMs: WORK_MS.small },
  ];
  const members: Member[] = [];
  try {
    const opened = await openSqliteStore(store, {
      clock: systemClock,
      random: systemRandom,
      synchronous: "normal",
    });
    const engine = await Engine.start(opened, { work: false, ownsStore: true });
    await submitLarge(engine, options, tenants);
    const pipeline = makeTenantPipeline({ tenants, concurrency }, options.smallChunkSize);
    const small = await engine.submit(pipeline, count(options.smallItems), { lane: "small.only" });
    for (let at = 0; at < PROCESSES; at++) {
      const log = join(folder, `calls-${at}`);
      members.push(new Member({ store, log, concurrency, tenants }, PROGRAM));
    }
    const { counts } = await small.wait();
    await engine.close();
    for (const member of members) expect(await member.close()).toBe(0);
    expect(counts.succeeded).toBe(options.smallItems);
    const calls = readCalls(folder);
    expect(calls.filter(({ tenant }) => tenant === SMALL)).toHaveLength(options.smallItems);
    const { share, judgedMs } = computeShare(calls);
    const part = share / (weight / (weight + 1));
    console.log(
      `${options.lanes} lanes against one, chunks of ${options.chunkSize}, weights 1:${weight}: ` +
        `${share.toFixed(3)} of ${Math.round(judgedMs)} ms, ${part.toFixed(3)} of the fair share`,
    );
    expect(part).toBeGreaterThanOrEqual(FAIR_MIN);
    return part;
  } finally {
    for (const member of members) if (member.isAlive) await member.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function submitLarge(
  engine: Engine,
  { concurrency, items, lanes, chunkSize }: FairnessOptions,
  tenants: Parameters<typeof makeTenantPipeline>[0]["tenants"],
): Promise<void> {
  const pipeline = makeTenantPipeline({ tenants, concurrency }, chunkSize);
  for (let lane = 0; lane < lanes; lane++) {
    await engine.submit(pipeline, count(items / lanes), { lane: `large.${lane}` });
  }
}

function count(items: number): Iterable<number> {
  return Array.from({ length: items }).keys();
}

function readCalls(folder: string): Call[] {
  const logs = readdirSync(folder).filter((name) => name.startsWith("calls-"));
  expect(logs).toHaveLength(PROCESSES);
  return logs.flatMap((name) => {
    const bytes = readFileSync(join(folder, name));
    const numbers = new Float64Array(Uint8Array.from(bytes).buffer);
    return Array.from({ length: numbers.length / NUMBERS_PER_CALL }, (_, at) => {
      const [tenant = -1, startAt = 0, endAt = 0] = numbers.subarray(at * NUMBERS_PER_CALL);
      return { tenant, startAt, endAt };
    });
  });
}

/** In the middle of the period in which both have work. */
function computeShare(calls: readonly Call[]): { share: number; judgedMs: number } {
  const starts = [LARGE, SMALL].map((one) =>
    calls.filter(({ tenant }) => tenant === one).map(({ startAt }) => startAt),
  );
  const from = starts.map((all) => all.reduce((least, at) => Math.min(least, at), Infinity));
  const to = starts.map((all) => all.reduce((most, at) => Math.max(most, at), 0));
  const begin = Math.max(...from);
  const cutMs = (Math.min(...to) - begin) * CUT;
  const [judgedFrom, judgedTo] = [begin + cutMs, Math.min(...to) - cutMs];
  const spentMs = [0, 0];
  for (const { tenant, startAt, endAt } of calls) {
    const within = Math.min(endAt, judgedTo) - Math.max(startAt, judgedFrom);
    if (within > 0) spentMs[tenant] = (spentMs[tenant] ?? 0) + within;
  }
  const [large = 0, small = 0] = spentMs;
  return { share: small / (large + small), judgedMs: judgedTo - judgedFrom };
}
