/** Health pages and leases of workers whose loop is busy, hangs or fails: with real processes. */
import { randomBytes } from "node:crypto";
import { createServer } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Running, Workspace } from "../../support/command-line.ts";
import { askForPostgres } from "../../support/postgres-setup.ts";

interface Health {
  readonly ok: boolean;
  readonly status: number;
  readonly reasons: readonly { readonly code: string; readonly message: string }[];
  readonly renewals: number;
  readonly leases: number;
  readonly task: { readonly expectedMs: number | null } | null;
}

interface Answer {
  readonly status: number;
  readonly tookMs: number;
  readonly body: Health;
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];
/** Short leases, so that what would lose them need not take a minute. */
const SHORT = { SLUICE_LEASE_MS: "1500", SLUICE_RENEW_MS: "500", SLUICE_SWEEP_MS: "100" };
/** A worker takes no more than it is at, so that the other one has as much to do. */
const ONE_BY_ONE = { ...SHORT, SLUICE_LEASE_ITEMS_MAX: "1" };
/** Holds the loop for a while, and writes down that it ran. */
const BLOCK = `const block = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};`;

/** A pipeline whose file begins with some code of its own. */
function writePipeline(code: string, options: string): void {
  work.writePipeline(options);
  work.write("pipeline.ts", `${work.read("pipeline.ts")}\n${code}\n`);
}

async function startWorker(
  env: Readonly<Record<string, string>> = {},
  ...args: readonly string[]
): Promise<{ readonly worker: Running; readonly url: string }> {
  const worker = work.start(["work", "pipeline.ts", "--health-port", "0", ...args], { env });
  await worker.waitFor(/health at http:\S+/);
  return { worker, url: /health at (http:\S+)/.exec(worker.stderr)?.[1] ?? "" };
}

async function ask(url: string): Promise<Answer> {
  const askedAt = performance.now();
  const response = await fetch(url, { signal: AbortSignal.timeout(20_000) });
  const body = (await response.json()) as Health;
  return { status: response.status, tookMs: performance.now() - askedAt, body };
}

/** Asks until the answer is this one. */
async function askUntil(url: string, isIt: (answer: Answer) => boolean): Promise<Answer> {
  for (;;) {
    const answer = await ask(url);
    if (isIt(answer)) return answer;
    await sleep(50);
  }
}

/** How often the chunks of the one batch were leased, at most. */
function readHighestFence(): number {
  const db = new DatabaseSync(work.at(".sluice/sluice.db"), { readOnly: true });
  try {
    return Number(db.prepare("SELECT max(fence) AS fence FROM chunk").get()?.["fence"]);
  } finally {
    db.close();
  }
}

function listRan(): string[] {
  return work.read("ran.txt").trim().split("\n").toSorted();
}

describe("while handlers hold the loop for longer than a lease lasts", () => {
  const blockFor = (ms: number): string => `chunkSize: 2, process: (item) => {
    appendFileSync("ran.txt", item.id + "\\n");
    block(${ms});
  }`;

  test("with all cores at work no lease is lost, each item runs once, and /health answers", async () => {
    writePipeline(BLOCK, blockFor(4_000));
    work.writePipeline(`process: () => {}`, "other.ts");
    work.write("other.ts", work.read("other.ts").replace('"letters"', '"other"'));
    work.writeItems(8);
    await work.run(...SUBMIT);
    // Has nothing to do but to take back leases that run out.
    const sweeper = work.start(["work", "other.ts"], { env: SHORT });
    const workers = await Promise.all([
      startWorker(ONE_BY_ONE, "--until-idle"),
      startWorker(ONE_BY_ONE, "--until-idle"),
    ]);
    const answers: Answer[] = [];
    const watch = workers.map(async ({ worker, url }) => {
      while (!worker.isOver) {
        // The last one may find nobody any more.
        const answer = await ask(url).catch(() => null);
        if (answer !== null) answers.push(answer);
        await sleep(100);
      }
    });
    for (const { worker } of workers) expect(await worker.ended).toMatchObject({ code: 0 });
    await Promise.all(watch);
    sweeper.signal("SIGTERM");
    await sweeper.ended;
    expect(listRan()).toEqual(Array.from({ length: 8 }, (_, n) => `i${n}`));
    expect(readHighestFence()).toBe(1);
    const red = answers.filter(({ status, body }) => status !== 200 && body.status === 1);
    expect(red).toEqual([]);
    // The thread did it, and not some luck with the loop's own timers.
    expect(Math.max(...answers.map(({ body }) => body.renewals))).toBeGreaterThan(1);
    const times = answers.map(({ tookMs }) => tookMs).toSorted((a, b) => a - b);
    expect(times.length).toBeGreaterThan(20);
    expect(times[Math.floor(times.length / 2)]).toBeLessThan(500);
  });

  test("the same on a server", async () => {
    const url = new URL(await askForPostgres());
    url.searchParams.set("schema", `health_${randomBytes(6).toString("hex")}`);
    // Not as short as elsewhere: a commit that was under way when the handler took the loop holds the
    // lock of its batch until the server gives up on it, after five seconds.
    const lease = { SLUICE_LEASE_MS: "12000", SLUICE_RENEW_MS: "4000" };
    const env = { ...SHORT, ...lease, SLUICE_STORE: url.href };
    writePipeline(BLOCK, blockFor(16_000));
    work.writePipeline(`process: () => {}`, "other.ts");
    work.write("other.ts", work.read("other.ts").replace('"letters"', '"other"'));
    work.writeItems(2);
    await work.start(SUBMIT, { env }).ended;
    const sweeper = work.start(["work", "other.ts"], { env });
    await sweeper.waitFor(/working on other/);
    const { worker, url: page } = await startWorker(env, "--until-idle");
    await askUntil(page, ({ body }) => body.renewals > 1);
    const { code, stderr } = await worker.ended;
    sweeper.signal("SIGTERM");
    const swept = await sweeper.ended;
    expect(code, stderr).toBe(0);
    expect(listRan()).toEqual(["i0", "i1"]);
    expect(`${stderr}${swept.stderr}`).not.toContain("lease.lost");
  });
});

test("a loop that never comes around turns 503, and its chunk is taken over", async () => {
  writePipeline(
    "",
    `process: (item) => {
      if (item.n === 1 && !existsSync("hung.txt")) {
        appendFileSync("hung.txt", "x");
        for (;;);
      }
      appendFileSync("ran.txt", item.id + "\\n");
    }`,
  );
  work.writeItems(3);
  await work.run(...SUBMIT);
  const env = { ...SHORT, SLUICE_HEARTBEAT_TIMEOUT: "4s" };
  const { worker: hung, url } = await startWorker(env);
  // It hangs, and until its limit has passed it is well and keeps its lease.
  await askUntil(url, ({ body }) => body.renewals > 1 && body.status === 1);
  expect(readHighestFence()).toBe(1);
  const red = await askUntil(url, ({ status }) => status === 503);
  expect(red.body).toMatchObject({ ok: false, status: 1, reasons: [{ code: "LOOP_HUNG" }] });
  const next = await work.start(["work", "pipeline.ts", "--until-idle"], { env }).ended;
  expect(next.code).toBe(0);
  expect(next.stdout).toContain("succeeded");
  expect(new Set(listRan())).toEqual(new Set(["i0", "i1", "i2"]));
  expect(hung.isOver).toBe(false);
  expect((await ask(url)).status).toBe(503);
  hung.signal("SIGKILL");
});

test("work in hand that does not move turns 503 though the loop comes around", async () => {
  work.write(
    "pipeline.ts",
    `import { definePipeline, paged } from "sluice";
export default definePipeline({
  name: "letters",
  source: () => paged({ stable: true, count: async () => 10, read: () => new Promise<number[]>(() => {}) }),
  process: () => {},
});`,
  );
  await work.run("submit", "pipeline.ts");
  const { url } = await startWorker({ SLUICE_HEARTBEAT_TIMEOUT: "1s" });
  const red = await askUntil(url, ({ status, body }) => status === 503 && body.status === 1);
  expect(red.body.reasons).toMatchObject([{ code: "NO_PROGRESS" }]);
});

test("a slow handler that waits is no stall: its own time limit acts first", async () => {
  work.writePipeline(`process: async () => { await new Promise((r) => setTimeout(r, 3_000)); }`);
  work.writeItems(1);
  await work.run(...SUBMIT);
  const { worker, url } = await startWorker({ SLUICE_HEARTBEAT_TIMEOUT: "1s" }, "--until-idle");
  const answers: Answer[] = [];
  while (!worker.isOver) {
    const answer = await ask(url).catch(() => null);
    if (answer !== null) answers.push(answer);
    await sleep(100);
  }
  expect(answers.filter(({ status, body }) => status !== 200 && body.status === 1)).toEqual([]);
  expect(await worker.ended).toMatchObject({ code: 0 });
});

test("a declared duration gives a handler that holds the loop more time", async () => {
  writePipeline(BLOCK, `expectedMs: 60_000, process: () => block(4_000)`);
  work.writeItems(1);
  await work.run(...SUBMIT);
  const { url, worker } = await startWorker({ SLUICE_HEARTBEAT_TIMEOUT: "1s" }, "--until-idle");
  const seen = await askUntil(url, ({ body }) => body.task !== null);
  expect(seen.body.task).toMatchObject({ expectedMs: 60_000 });
  await sleep(2_000);
  expect(await ask(url)).toMatchObject({ status: 200, body: { limitMs: 90_000 } });
  expect(await worker.ended).toMatchObject({ code: 0 });
});

test("a handler that hangs is found by its declared duration, and its chunk is taken over", async () => {
  writePipeline(
    "",
    `expectedMs: 1_000, process: (item) => {
      if (existsSync("hung.txt")) return;
      appendFileSync("hung.txt", "x");
      for (;;);
    }`,
  );
  work.writeItems(1);
  await work.run(...SUBMIT);
  // The limit of the heartbeat is two minutes: nobody waits for that here.
  const { worker: hung, url } = await startWorker(SHORT);
  const red = await askUntil(url, ({ status, body }) => status === 503 && body.status === 1);
  expect(red.body).toMatchObject({ limitMs: 5_000, reasons: [{ code: "LOOP_HUNG" }] });
  const next = await work.start(["work", "pipeline.ts", "--until-idle"], { env: SHORT }).ended;
  expect(next.code).toBe(0);
  expect(next.stdout).toContain("succeeded");
  expect(hung.isOver).toBe(false);
  hung.signal("SIGKILL");
});

test("how long a handler takes is learned from its calls", async () => {
  work.writePipeline(
    `concurrency: 1, process: async () => { await new Promise((r) => setTimeout(r, 50)); }`,
  );
  work.writeItems(2_000);
  await work.run(...SUBMIT);
  const { url } = await startWorker();
  const first = await askUntil(url, ({ body }) => body.task !== null);
  expect(first.body.task).toMatchObject({ expectedMs: null });
  const isLearned = ({ body: { task } }: Answer): boolean =>
    task !== null && task.expectedMs !== null;
  const { body } = await askUntil(url, isLearned);
  expect(body.task?.expectedMs).toBeGreaterThan(40);
  expect(body.task?.expectedMs).toBeLessThan(20_000);
});

test("a fatal error turns 503 with status -1 and the error's code", async () => {
  work.writePipeline(`concurrency: 2, chunkSize: 1, process: async (item) => {
    if (item.n === 0) await new Promise((r) => setTimeout(r, 6_000));
    throw new FatalError("the index is gone", { code: "INDEX_GONE" });
  }`);
  work.writeItems(2);
  await work.run(...SUBMIT);
  // The other handler ignores its signal, so there is time to look.
  const { url, worker } = await startWorker({ SLUICE_ABORT_GRACE_MS: "5000" });
  const red = await askUntil(url, ({ body }) => body.status === -1);
  expect(red.status).toBe(503);
  expect(red.body.reasons).toMatchObject([{ code: "FATAL" }]);
  expect(red.body.reasons[0]?.message).toContain("INDEX_GONE");
  expect((await worker.ended).code).toBe(70);
});

test("a worker that stops is alive and not ready, and closes its pages", async () => {
  work.writePipeline(`process: async () => { await new Promise((r) => setTimeout(r, 3_000)); }`);
  work.writeItems(1);
  await work.run(...SUBMIT);
  const { url, worker } = await startWorker();
  const ready = url.replace("/health", "/ready");
  await askUntil(url, ({ body }) => body.task !== null);
  expect(await ask(ready)).toMatchObject({ status: 200 });
  worker.signal("SIGTERM");
  const stopping = await askUntil(ready, ({ status }) => status === 503);
  expect(stopping.body.reasons).toMatchObject([{ code: "STOPPING" }]);
  expect(await ask(url)).toMatchObject({ status: 200 });
  expect(await worker.ended).toMatchObject({ code: 0 });
  await expect(fetch(url)).rejects.toThrow();
});

describe("the port", () => {
  test("is an error when somebody chose one that is taken, and says what to do", async () => {
    work.writePipeline();
    const { url } = await startWorker();
    const port = new URL(url).port;
    const { code, stderr } = await work.run("work", "pipeline.ts", "--health-port", port);
    expect(code).toBe(1);
    expect(stderr).toContain(`the health port 127.0.0.1:${port} is not open: somebody else has it`);
    expect(stderr).toContain("--health-port");
  });

  test("is done without when nobody chose it and it is taken", async () => {
    work.writePipeline();
    const holder = createServer();
    // If somebody on this machine has it already, so much the better.
    await new Promise<void>((resolve) => {
      holder.once("error", () => resolve());
      holder.listen(8_085, "127.0.0.1", resolve);
    });
    try {
      const args = ["work", "pipeline.ts", "--until-idle"];
      const { code, stderr } = await work.start(args, { env: { SLUICE_HEALTH_PORT: "" } }).ended;
      expect(code).toBe(0);
      expect(stderr).toContain("this worker has no health pages");
      expect(stderr).toContain("working on letters");
    } finally {
      holder.close();
    }
  });

  test("of the third process of a supervisor is the given one and two more", async () => {
    work.writePipeline();
    const { url } = await startWorker();
    const taken = Number(new URL(url).port);
    const env = { SLUICE_HEALTH_PORT: String(taken - 2), SLUICE_PROCESS: "3" };
    const { stderr } = await work.start(["work", "pipeline.ts"], { env }).ended;
    expect(stderr).toContain(`the health port 127.0.0.1:${taken} is not open`);
  });

  test("and the limits are refused together when they are wrong", async () => {
    work.writePipeline();
    const env = {
      SLUICE_HEARTBEAT_TIMEOUT: "soon",
      SLUICE_TASK_TIMEOUT_BUFFER: "0.5",
      SLUICE_POLL_WAIT: "20s",
      SLUICE_POLL_MS: "1000",
    };
    const args = ["work", "pipeline.ts", "--health-port", "70000"];
    const { code, stderr } = await work.start(args, { env }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain("healthPort must be a port from 0 to 65535");
    expect(stderr).toContain('it is "soon" in SLUICE_HEARTBEAT_TIMEOUT');
    expect(stderr).toContain("taskTimeoutBuffer must be a number from 1 to 100");
    expect(stderr).toContain("pollWait in SLUICE_POLL_WAIT and pollMs in SLUICE_POLL_MS mean the");
  });
});
