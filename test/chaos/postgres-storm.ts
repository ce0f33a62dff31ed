/**
 * The storm on a PostgreSQL server that crashes and restarts. The network breaks in the middle of
 * commits, is cut for all processes, sometimes for longer than a lease, and falls silent for a
 * while.
 */
import pg from "pg";
import { expect, vi } from "vitest";
import { ANSWER_MS } from "../../src/adapters/postgres/connection/connection.ts";
import type { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { type OwnPostgresServer, startOwnPostgres } from "../support/postgres-server.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import { type Crew, isOverWithin, LEASE_MS } from "./crew.ts";
import { pick } from "./draw.ts";
import { WAIT_MS } from "./onlooker.ts";
import { checkStorm, RECOVERY_MAX_MS, type Storm, type StormOptions } from "./storm.ts";

export interface PostgresStormOptions extends StormOptions {
  /** When the server crashes, each as a share of the starts and ends of all items. */
  readonly crashesAt: readonly number[];
  /** When the server is unreachable for longer than a lease; shares as above. */
  readonly outagesAt: readonly number[];
  /** Between two disturbances of the network. */
  readonly disturbEveryMs: number;
  readonly cutsMin: number;
}

/** What the promise allows after the server is back. */
const RETURN_MS = 5_000;
/** A busy machine may take longer. */
const SLACK = 3;
const SILENT_MS = 1_000;
const OUTAGE_MS = 1.5 * LEASE_MS;
/** A process that starts while the server is down is refused; a running one waits. */
const REFUSED_AT_START = /^(?![\s\S]*working on)[\s\S]*(cannot be reached|broke off)/;

const DISTURBANCES = ["cut", "lose_answer", "lose_request", "silence"] as const;
type Disturbance = (typeof DISTURBANCES)[number];

interface Damage {
  readonly done: Map<Disturbance, number>;
  /** How long it took from the server's return until items were settled again. */
  readonly returnsMs: number[];
}

export async function checkPostgresStorm(options: PostgresStormOptions): Promise<void> {
  const server = await startOwnPostgres({ durable: true });
  const proxy = await CuttingProxy.start(server.address);
  const damage: Damage = { done: new Map(), returnsMs: [] };
  try {
    await checkStorm({
      ...options,
      store: proxy.address,
      mayEnd: REFUSED_AT_START,
      // No worker can take over while the server is down, expired leases get the outage grace of
      // another lease, and a call over a silent connection fails only after its time limit. All
      // these times add up.
      recoveryMaxMs: RECOVERY_MAX_MS + OUTAGE_MS + RETURN_MS + LEASE_MS + ANSWER_MS,
      disturb: async (storm) => {
        await Promise.all([
          takeAway(storm, server, proxy, options, damage),
          disturbWay(storm, proxy, options, damage),
        ]);
      },
    });
  } finally {
    await proxy.close();
    await server.stop();
    tellOf(damage);
  }
  expect(damage.returnsMs).toHaveLength(options.crashesAt.length + options.outagesAt.length);
  expect(Math.max(...damage.returnsMs)).toBeLessThan(RETURN_MS * SLACK);
  const cuts = [...damage.done.values()].reduce((sum, times) => sum + times, 0);
  expect(cuts).toBeGreaterThanOrEqual(options.cutsMin);
}

function tellOf(damage: Damage): void {
  const done = [...damage.done].map(([what, times]) => `${times} x ${what}`).join(", ");
  const returns = damage.returnsMs.map((ms) => `${Math.round(ms)} ms`).join(", ");
  console.log(`${done}; first items settled after the server's return: ${returns}`);
}

/** One after the other, so that each return can be measured. */
async function takeAway(
  { crew, ended }: Storm,
  server: OwnPostgresServer,
  proxy: CuttingProxy,
  { crashesAt, outagesAt, items }: PostgresStormOptions,
  { returnsMs }: Damage,
): Promise<void> {
  const crashes = crashesAt.map((share) => ({ share, isCrash: true }));
  const outages = outagesAt.map((share) => ({ share, isCrash: false }));
  const all = [...crashes, ...outages].toSorted((a, b) => a.share - b.share);
  for (const { share, isCrash } of all) {
    await Promise.race([ended, crew.onlooker.waitForLines(share * 2 * items)]);
    noteDisturbed(crew);
    if (isCrash) await server.restart("immediate");
    else await refuseAll(proxy, ended);
    // Processes that were started meanwhile.
    noteDisturbed(crew);
    returnsMs.push(await measureReturn(server));
  }
}

async function refuseAll(proxy: CuttingProxy, ended: Promise<unknown>): Promise<void> {
  proxy.refuse();
  await isOverWithin(ended, OUTAGE_MS);
  proxy.accept();
}

/** From now until an item is settled. */
async function measureReturn(server: OwnPostgresServer): Promise<number> {
  const backAt = readMonotonicMs();
  const client = new pg.Client(server.address);
  await client.connect();
  try {
    const before = await countSettled(client);
    const isMoving = async (): Promise<boolean> => (await countSettled(client)) > before;
    await vi.waitUntil(isMoving, { timeout: WAIT_MS, interval: 20 });
    return readMonotonicMs() - backAt;
  } finally {
    await client.end();
  }
}

async function countSettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ settled: string }>(
    "SELECT coalesce(sum(succeeded + skipped + failed), 0) AS settled FROM sluice.step",
  );
  return Number(rows[0]?.settled);
}

async function disturbWay(
  { crew, ended, random }: Storm,
  proxy: CuttingProxy,
  { disturbEveryMs }: PostgresStormOptions,
  { done }: Damage,
): Promise<void> {
  while (!(await isOverWithin(ended, disturbEveryMs))) {
    noteDisturbed(crew);
    const what = await disturbOnce(proxy, ended, random);
    done.set(what, (done.get(what) ?? 0) + 1);
  }
  proxy.leaveAlone();
}

async function disturbOnce(
  proxy: CuttingProxy,
  ended: Promise<unknown>,
  random: SeededRandom,
): Promise<Disturbance> {
  const what = pick(DISTURBANCES, random);
  if (what === "cut") proxy.cut();
  else if (what === "silence") {
    proxy.fallSilent();
    await isOverWithin(ended, SILENT_MS);
    proxy.speak();
  } else await Promise.race([proxy.breakCommit(what), ended]);
  return what;
}

/** The calls around it may be lost and repeated. */
function noteDisturbed(crew: Crew): void {
  for (const { name } of crew.members) crew.disturbed.add(name);
}
