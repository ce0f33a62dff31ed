/**
 * Health pages and leases of workers whose event loop is busy, hangs or fails, with real processes.
 */
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test, type TestContext } from "vitest";
import { askForPostgres } from "../../support/postgres-setup.ts";
import {
  type Answer,
  ask,
  askUntil,
  askUntilOver,
  BLOCK,
  HealthRig,
  listRed,
  makeOwnSchema,
} from "./health-rig.ts";
import { checkSaturation } from "./saturation.ts";

/** Of one test: other tests run beside it. */
function openRig({ onTestFinished }: Pick<TestContext, "onTestFinished">): HealthRig {
  const rig = new HealthRig();
  onTestFinished(() => rig.work.remove());
  return rig;
}

/** Short leases, so that a lost lease shows without waiting a minute. */
const SHORT = { SLUICE_LEASE_MS: "1500" };
const ONE_SECOND = { SLUICE_HEARTBEAT_TIMEOUT: "1s" };
const waitFor = (ms: number): string =>
  `await new Promise((resolve) => setTimeout(resolve, ${ms}))`;

// Runs alone, because it uses every core. test/long has a version of a minute.
test("when handlers use all cores for longer than a lease, no lease is lost, items run once, and /health answers", async (context) => {
  const rig = openRig(context);
  await checkSaturation(rig, { workers: 2, blockMs: 2_500, itemsPerWorker: 2, env: SHORT });
  expect(rig.readHighestFence()).toBe(1);
});

describe.concurrent("a worker", () => {
  test("on a server keeps its lease while a handler blocks the loop for longer than the lease", async (context) => {
    const rig = openRig(context);
    const store = makeOwnSchema(await askForPostgres());
    // Not as short as elsewhere: a commit that was running when the handler blocked the loop holds
    // the lock of its batch until the server gives up on it, after five seconds.
    const env = { SLUICE_LEASE_MS: "9000", SLUICE_STORE: store };
    await checkSaturation(rig, { workers: 1, blockMs: 11_000, itemsPerWorker: 1, env });
  });

  test("whose event loop is blocked for ever turns 503, and another worker takes its chunk", async (context) => {
    const rig = openRig(context);
    rig.writePipeline(
      "",
      `process: (item) => {
        if (item.n === 1 && !existsSync("hung.txt")) {
          appendFileSync("hung.txt", "x");
          for (;;);
        }
        appendFileSync("ran.txt", item.id + "\\n");
      }`,
    );
    await rig.submit(3);
    const env = { ...SHORT, SLUICE_HEARTBEAT_TIMEOUT: "4s" };
    const { worker: hung, url } = await rig.startWorker(env);
    // It hangs. Until its limit has passed it is healthy and keeps its lease.
    await askUntil(url, ({ body }) => body.renewals > 1 && body.status === 1);
    expect(rig.readHighestFence()).toBe(1);
    const red = await askUntil(url, ({ status }) => status === 503);
    expect(red.body).toMatchObject({ ok: false, status: 1, reasons: [{ code: "LOOP_HUNG" }] });
    const next = await rig.work.start(["work", "pipeline.ts", "--until-idle"], { env }).ended;
    expect(next.code).toBe(0);
    expect(next.stdout).toContain("succeeded");
    expect(new Set(rig.listRan())).toEqual(new Set(["i0", "i1", "i2"]));
    expect(hung.isOver).toBe(false);
    expect((await ask(url)).status).toBe(503);
    hung.signal("SIGKILL");
  });

  test("whose leased items make no progress turns 503 although its loop runs", async (context) => {
    const rig = openRig(context);
    rig.work.write(
      "pipeline.ts",
      `import { definePipeline, paged } from "sluice";
export default definePipeline({
  name: "letters",
  source: () => paged({ stable: true, count: async () => 10, read: () => new Promise<number[]>(() => {}) }),
  process: () => {},
});`,
    );
    await rig.work.run("submit", "pipeline.ts");
    const { url } = await rig.startWorker(ONE_SECOND);
    const red = await askUntil(url, ({ status, body }) => status === 503 && body.status === 1);
    expect(red.body.reasons).toMatchObject([{ code: "NO_PROGRESS" }]);
  });

  test("whose handler waits for long stays healthy: the handler's own time limit acts first", async (context) => {
    const rig = openRig(context);
    rig.work.writePipeline(`process: async () => { ${waitFor(2_500)}; }`);
    await rig.submit(1);
    const { worker, url } = await rig.startWorker(ONE_SECOND, "--until-idle");
    expect(listRed(await askUntilOver(worker, url))).toEqual([]);
    expect(await worker.ended).toMatchObject({ code: 0 });
  });

  test("has more time for a handler that blocks the loop and has declared a duration", async (context) => {
    const rig = openRig(context);
    rig.writePipeline(BLOCK, `expectedMs: 60_000, process: () => block(3_000)`);
    await rig.submit(1);
    const { url, worker } = await rig.startWorker(ONE_SECOND, "--until-idle");
    const seen = await askUntil(url, ({ body }) => body.task !== null);
    expect(seen.body.task).toMatchObject({ expectedMs: 60_000 });
    await sleep(1_500);
    expect(await ask(url)).toMatchObject({ status: 200, body: { limitMs: 90_000 } });
    expect(await worker.ended).toMatchObject({ code: 0 });
  });

  test("whose handler exceeds its declared duration is unhealthy, and another worker takes its chunk", async (context) => {
    const rig = openRig(context);
    rig.writePipeline(
      "",
      `expectedMs: 1_000, process: () => {
        if (existsSync("hung.txt")) return;
        appendFileSync("hung.txt", "x");
        for (;;);
      }`,
    );
    await rig.submit(1);
    // The limit of the heartbeat is two minutes: the test does not wait for that.
    const { worker: hung, url } = await rig.startWorker(SHORT);
    const red = await askUntil(url, ({ status, body }) => status === 503 && body.status === 1);
    expect(red.body).toMatchObject({ limitMs: 5_000, reasons: [{ code: "LOOP_HUNG" }] });
    const next = await rig.work.start(["work", "pipeline.ts", "--until-idle"], { env: SHORT })
      .ended;
    expect(next.code).toBe(0);
    expect(next.stdout).toContain("succeeded");
    expect(hung.isOver).toBe(false);
    hung.signal("SIGKILL");
  });

  test("learns from its calls how long a handler takes", async (context) => {
    const rig = openRig(context);
    rig.work.writePipeline(`concurrency: 1, process: async () => { ${waitFor(50)}; }`);
    await rig.submit(2_000);
    const { url } = await rig.startWorker();
    const first = await askUntil(url, ({ body }) => body.task !== null);
    expect(first.body.task).toMatchObject({ expectedMs: null });
    const isLearned = ({ body: { task } }: Answer): boolean =>
      task !== null && task.expectedMs !== null;
    const { body } = await askUntil(url, isLearned);
    expect(body.task?.expectedMs).toBeGreaterThan(40);
    expect(body.task?.expectedMs).toBeLessThan(20_000);
  });

  test("with a fatal error turns 503 with status -1 and the code of the error", async (context) => {
    const rig = openRig(context);
    rig.work.writePipeline(`concurrency: 2, chunkSize: 1, process: async (item) => {
      if (item.n === 0) ${waitFor(3_000)};
      throw new FatalError("the index is gone", { code: "INDEX_GONE" });
    }`);
    await rig.submit(2);
    // The other handler ignores its signal, so there is time to look.
    const { url, worker } = await rig.startWorker({ SLUICE_ABORT_GRACE_MS: "2500" });
    const red = await askUntil(url, ({ body }) => body.status === -1);
    expect(red.status).toBe(503);
    expect(red.body.reasons).toMatchObject([{ code: "FATAL" }]);
    expect(red.body.reasons[0]?.message).toContain("INDEX_GONE");
    expect((await worker.ended).code).toBe(70);
  });

  test("that stops is alive but not ready, and closes its pages", async (context) => {
    const rig = openRig(context);
    rig.work.writePipeline(`process: async () => { while (!existsSync("go")) ${waitFor(5)}; }`);
    await rig.submit(1);
    const { url, worker } = await rig.startWorker();
    const ready = url.replace("/health", "/ready");
    await askUntil(url, ({ body }) => body.task !== null);
    expect(await ask(ready)).toMatchObject({ status: 200 });
    worker.signal("SIGTERM");
    const stopping = await askUntil(ready, ({ status }) => status === 503);
    expect(stopping.body.reasons).toMatchObject([{ code: "STOPPING" }]);
    expect(await ask(url)).toMatchObject({ status: 200 });
    rig.work.write("go", "");
    expect(await worker.ended).toMatchObject({ code: 0 });
    await expect(fetch(url)).rejects.toThrow();
  });
});

describe.concurrent("the port", () => {
  test("is an error if it was chosen and is taken; the third process uses it plus two", async (context) => {
    const rig = openRig(context);
    rig.work.writePipeline();
    const { url } = await rig.startWorker();
    const taken = Number(new URL(url).port);
    const third = { SLUICE_HEALTH_PORT: String(taken - 2), SLUICE_PROCESS: "3" };
    const [chosen, supervised] = await Promise.all([
      rig.work.run("work", "pipeline.ts", "--health-port", String(taken)),
      rig.work.start(["work", "pipeline.ts"], { env: third }).ended,
    ]);
    const said = `the health port 127.0.0.1:${taken} is not open: another program uses it`;
    expect(chosen.code).toBe(1);
    expect(chosen.stderr).toContain(said);
    expect(chosen.stderr).toContain("--health-port");
    expect(supervised.stderr).toContain(said);
  });

  test("is left unused when it is the default and taken", async (context) => {
    const { work } = openRig(context);
    work.writePipeline();
    const holder = createServer();
    // If another process already uses the port, that is fine too.
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

  test("and the limits are reported together when they are wrong", async (context) => {
    const { work } = openRig(context);
    work.writePipeline();
    const env = {
      SLUICE_HEARTBEAT_TIMEOUT: "soon",
      SLUICE_TASK_TIMEOUT_BUFFER: "0.5",
    };
    const args = ["work", "pipeline.ts", "--health-port", "70000"];
    const { code, stderr } = await work.start(args, { env }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain("healthPort must be a port from 0 to 65535");
    expect(stderr).toContain('it is "soon" in SLUICE_HEARTBEAT_TIMEOUT');
    expect(stderr).toContain("taskTimeoutBuffer must be a number from 1 to 100");
  });
});
