/**
 * Several processes share rates over one file, while one of them is killed and the clock of another
 * jumps. And a real server that answers 429.
 *
 *   SLUICE_CHAOS_ITEMS=20000 npx vitest run test/chaos/rates
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { MovableClock } from "../support/movable-clock.ts";
import { readLines } from "../support/command-line.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import { findRateExcess } from "./black-box/windows.ts";
import { Crew } from "./crew.ts";

const ITEMS = Number(process.env["SLUICE_CHAOS_ITEMS"] ?? 400);
const RATE = { perSecond: 50, burst: 10 };
const TEST_LIMIT_MS = 120_000 + (ITEMS * 4_000) / RATE.perSecond;

let crew: Crew;
let server: Server | null = null;
afterEach(async () => {
  await crew.dispose();
  server?.closeAllConnections();
  server?.close();
  server = null;
});

test(
  "four processes together keep to a rate through a kill and clock jumps, and every item is settled once",
  async () => {
    crew = new Crew({ items: ITEMS, chunkSize: 20, workMs: 10, rate: RATE });
    const clock = new MovableClock(crew.work.at("clock"));
    crew.start("run");
    const jumpy = crew.start("work", { env: clock.env });
    const victim = crew.start("work");
    crew.start("work");
    // A start and an end for each item.
    await crew.onlooker.waitForLines(ITEMS * 0.6);
    clock.jump("+1h");
    await crew.onlooker.waitForLines(ITEMS * 0.9);
    await crew.kill(victim);
    crew.restart(victim);
    clock.jump("-1h");
    await crew.onlooker.waitForEnd();
    const evidence = await crew.gather();
    expect(findFaults(evidence)).toEqual([]);
    expect(evidence.status).toMatchObject({ state: "succeeded", succeeded: ITEMS });
    const { runs } = evidence;
    const times = runs.map(({ startAt }) => startAt);
    const tookMs = Math.max(...times) - Math.min(...times);
    const share = (runs.length / (tookMs / 1_000) / RATE.perSecond).toFixed(2);
    const excess = findRateExcess(times, RATE);
    console.log(`${runs.length} starts, ${share} of the rate; ${excess.toFixed(1)} above it`);
    expect(excess).toBeLessThanOrEqual(0);
    const workers = new Set(runs.map(({ process }) => process));
    expect([...workers]).toEqual(expect.arrayContaining([jumpy.name, victim.name]));
  },
  TEST_LIMIT_MS,
);

const KEYS = ["a", "b", "c"];
const BUSY = "a";
/** Long enough to observe the other keys meanwhile, even on a busy machine. */
const RETRY_AFTER_MS = 5_000;
/** For this long another worker may still use the tokens that it had. */
const KNOWN_MS = 1_100;

const FETCHING = `import { definePipeline, jsonl } from "sluice";
export default definePipeline({
  name: "fetching",
  chunkSize: 10,
  concurrency: 4,
  source: ({ input }: { input: string }) => jsonl<{ id: string; n: number }>(input),
  rate: { key: ({ n }) => ${JSON.stringify(KEYS)}[n % 3]!, perSecond: 20, burst: 2 },
  process: async ({ n }, { signal }) => {
    const key = ${JSON.stringify(KEYS)}[n % 3];
    const answer = await fetch(\`http://127.0.0.1:\${process.env["CHAOS_PORT"]}/\${key}\`, { signal });
    await answer.text();
    if (answer.ok) return;
    throw Object.assign(new Error("refused"), { status: answer.status, headers: answer.headers });
  },
});
`;

interface Request {
  readonly key: string;
  readonly at: number;
}

/** Refuses one request for the busy key. */
async function serve(requests: Request[], refusals: Request[]): Promise<number> {
  server = createServer((request, response) => {
    const seen = { key: request.url?.slice(1) ?? "", at: readMonotonicMs() };
    requests.push(seen);
    const ofKey = requests.filter(({ key }) => key === seen.key).length;
    const isRefused = seen.key === BUSY && ofKey === 10;
    if (isRefused) response.writeHead(429, { "Retry-After": String(RETRY_AFTER_MS / 1_000) });
    response.end();
    if (isRefused) refusals.push({ key: seen.key, at: readMonotonicMs() });
  });
  const listening = server;
  await new Promise<void>((resolve) => {
    listening.listen(0, "127.0.0.1", resolve);
  });
  return (listening.address() as AddressInfo).port;
}

test("when a server answers 429 for one key, every process stops that key, and the others continue", async () => {
  const requests: Request[] = [];
  const refusals: Request[] = [];
  crew = new Crew({ items: 180 });
  const env = { CHAOS_PORT: String(await serve(requests, refusals)) };
  crew.work.write("fetching.ts", FETCHING);
  const workers = ["one", "two"].map(() => crew.work.start(["work", "fetching.ts"], { env }));
  const run = crew.work.start(["run", "fetching.ts", "--input", "items.jsonl", "--json"], { env });
  const { code, stdout, stderr } = await run.ended;
  for (const worker of workers) worker.signal("SIGTERM");
  for (const worker of workers) expect(await worker.ended).toMatchObject({ code: 0 });
  expect(code, stderr).toBe(0);
  expect(readLines(stdout)).toMatchObject([{ state: "succeeded", succeeded: 180 }]);

  expect(refusals).toHaveLength(1);
  const [{ at: refusedAt }] = refusals as [Request];
  const ofBusy = requests.filter(({ key }) => key === BUSY);
  const since = (ms: number): Request[] => ofBusy.filter(({ at }) => at > refusedAt + ms);
  const opensAt = Math.min(...since(RETRY_AFTER_MS).map(({ at }) => at));
  expect(opensAt).toBeLessThan(Number.POSITIVE_INFINITY);
  expect(since(KNOWN_MS).filter(({ at }) => at < refusedAt + RETRY_AFTER_MS)).toEqual([]);
  // One request more than there are items: only the refused one was repeated.
  expect(requests).toHaveLength(181);
  for (const key of KEYS.filter((one) => one !== BUSY)) {
    const meanwhile = requests.filter(
      (one) => one.key === key && one.at > refusedAt + KNOWN_MS && one.at < opensAt,
    );
    expect(meanwhile, `key ${key} goes on`).not.toEqual([]);
  }
  for (const key of KEYS) {
    const times = requests.filter((one) => one.key === key).map(({ at }) => at);
    expect(times).toHaveLength(key === BUSY ? 61 : 60);
  }
});
