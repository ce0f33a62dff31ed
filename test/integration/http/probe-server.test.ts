/**
 * The thread beside a worker, started from its source files: what it answers, and which pages it
 * serves for the main thread.
 */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { DEFAULT_HEALTH_LIMITS } from "../../../src/core/fleet/health.ts";
import { SluiceError } from "../../../src/core/base/errors.ts";
import { WorkerHealth } from "../../../src/runtime/health/worker-health.ts";
import { systemClock } from "../../../src/runtime/system/system-clock.ts";
import { ProbeServer, type ProbePage } from "../../../src/health-thread/probe-server.ts";

const TERMS = { worker: 1, leaseMs: 15_000, renewMs: 5_000 };

const open: ProbeServer[] = [];
afterEach(async () => {
  for (const probeServer of open.splice(0)) await probeServer.close();
});

async function start(
  pages: Record<string, ProbePage> = {},
  port = 0,
): Promise<{
  readonly health: WorkerHealth;
  readonly probeServer: ProbeServer;
  readonly url: string;
}> {
  const health = new WorkerHealth(systemClock);
  const probeServer = await ProbeServer.start({
    health,
    clock: systemClock,
    log: () => undefined,
    limits: DEFAULT_HEALTH_LIMITS,
    listening: { host: "127.0.0.1", port },
    renewalStore: null,
    pages,
  });
  open.push(probeServer);
  return { health, probeServer, url: `http://127.0.0.1:${probeServer.port}` };
}

describe("a probe server", () => {
  test("reports the worker's state from the shared memory", async () => {
    const { health, url } = await start();
    expect((await fetch(`${url}/health`)).status).toBe(503);
    health.start(TERMS);
    expect((await fetch(`${url}/health?x=1`)).status).toBe(200);
    expect((await fetch(`${url}/ready`)).status).toBe(200);
    health.leases.enter({ batch: "b-1", step: 0, chunk: 0, fence: 1 });
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ ok: true, leases: 1 });
    health.noteFatal(new SluiceError("STORE_GONE", "it no longer exists"));
    const red = await fetch(`${url}/health`);
    expect(red.status).toBe(503);
    expect(await red.text()).toContain("STORE_GONE");
    health.noteStopped();
  });

  test("refuses everything but GET requests", async () => {
    const { url } = await start();
    const head = await fetch(`${url}/health`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([503, ""]);
    const post = await fetch(`${url}/health`, { method: "POST", body: "x" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const other = await fetch(`${url}/secrets`);
    expect([other.status, await other.json()]).toEqual([
      404,
      { error: "there is no such page", pages: ["/health", "/ready"] },
    ]);
  });

  test("serves fresh pages of the main thread while its loop runs", async () => {
    let made = 0;
    const read = async (): Promise<string> => `made ${++made}\n`;
    const page = { contentType: "text/plain; version=1", read };
    const { url, health } = await start({ "/metrics": page });
    health.start(TERMS);
    const fresh = await fetch(`${url}/metrics`);
    expect(fresh.headers.get("content-type")).toBe("text/plain; version=1");
    expect(fresh.headers.get("age")).toBe("0");
    expect(await fresh.text()).toMatch(/^made \d+\n$/);
    const again = await fetch(`${url}/metrics`);
    expect(Number((await again.text()).slice(5))).toBe(made);
    health.noteStopped();
  });

  test("serves the last page, with its age, when the main thread is blocked", async () => {
    let isBusy = false;
    const read = (): Promise<string> =>
      isBusy ? Promise.withResolvers<string>().promise : Promise.resolve("x 1\n");
    const { url } = await start({ "/metrics": { contentType: "text/plain", read } });
    expect(await (await fetch(`${url}/metrics`)).text()).toBe("x 1\n");
    isBusy = true;
    await sleep(1_100);
    const old = await fetch(`${url}/metrics`);
    expect(await old.text()).toBe("x 1\n");
    expect(Number(old.headers.get("age"))).toBeGreaterThanOrEqual(1);
  });

  test("computes /scaling for the target of its query, and refuses a wrong one with 400", async () => {
    const counts = {
      pipeline: "letters",
      ready: 6_000,
      delayed: 0,
      leased: 0,
      unslicedBatches: 0,
      workers: 2,
      busyWorkers: 2,
      arrivalPerSecond: 0,
      servicePerSecond: 20,
    };
    const text = `${JSON.stringify({ recommendedWorkers: 1, pipelines: [counts] })}\n`;
    const { url } = await start({
      "/scaling": { contentType: "application/json", read: async () => text },
      "/metrics": { contentType: "text/plain", read: async () => "x 1\n" },
    });
    expect(await (await fetch(`${url}/scaling`)).text()).toBe(text);
    const asked = await fetch(`${url}/scaling?drainMs=60000&max=7`);
    expect(asked.status).toBe(200);
    expect(await asked.json()).toMatchObject({
      recommendedWorkers: 7,
      pipelines: [{ ready: 6_000, recommendedWorkers: 7, workersByDrain: 10 }],
    });
    const wrong = await fetch(`${url}/scaling?max=lots&scaleMin=1`);
    expect([wrong.status, wrong.headers.get("content-type")]).toEqual([400, "application/json"]);
    expect(await wrong.json()).toEqual({
      error:
        'max must be a whole number from 0 to 100000; it is "lots"; ' +
        "scaleMin is not an option of scaling",
      hint: "The options are drainMs, utilisation, min, max, for example /scaling?min=1&max=20.",
    });
    // Other pages have no parameters, and ignore them as before.
    expect((await fetch(`${url}/metrics?max=lots`)).status).toBe(200);
  });

  test("answers 503 for a page that cannot be made, and tries again", async () => {
    let isBroken = true;
    const read = async (): Promise<string> => {
      if (isBroken) throw new Error("no");
      return "x 1\n";
    };
    const { url } = await start({ "/metrics": { contentType: "text/plain", read } });
    expect((await fetch(`${url}/metrics`)).status).toBe(503);
    isBroken = false;
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
  });

  test("answers again soon after all connections were opened and left silent", async () => {
    const { probeServer, url } = await start();
    const silent = Array.from({ length: 100 }, () => connect(probeServer.port ?? 0, "127.0.0.1"));
    for (const socket of silent) socket.on("error", () => undefined);
    const openedAt = performance.now();
    await sleep(500);
    const ask = (): Promise<Response | null> => fetch(`${url}/health`).catch(() => null);
    while ((await ask()) === null) await sleep(100);
    expect(performance.now() - openedAt).toBeLessThan(20_000);
    for (const socket of silent) socket.destroy();
  });

  test("refuses a port that is taken and frees its own when it closes", async () => {
    const { probeServer } = await start();
    const port = probeServer.port ?? 0;
    await expect(start({}, port)).rejects.toMatchObject({ code: "HEALTH_PORT" });
    await probeServer.close();
    expect((await start({}, port)).probeServer.port).toBe(port);
  });
});
