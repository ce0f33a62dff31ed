/** Events that leave the program: webhooks to a real server, real commands, real files. */
import dns from "node:dns";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, describe, expect, vi } from "vitest";
import type { UndeliveredEvent } from "../../../src/ports/store/delivery-store.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../../src/runtime/system/system-clock.ts";
import { commandSink, fileSink, verifyWebhook, webhookSink } from "../../../src/sinks/index.ts";
import { collect, describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";
import { type Answer, ok, startWebServer, status, type WebServer } from "./web-server.ts";

const pipeline = definePipeline({ name: "told", chunkSize: 2, process: () => undefined });
const SECRET = "a secret of this test only";
const AT_ONCE = { baseMs: 0, capMs: 0 };

const servers: WebServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(answer: Answer): Promise<WebServer> {
  const server = await startWebServer(answer);
  servers.push(server);
  return server;
}

function hook(
  { url }: { readonly url: string },
  options: Partial<Parameters<typeof webhookSink>[0]> = {},
) {
  return webhookSink({ url, secret: SECRET, allowPrivate: true, backoff: AT_ONCE, ...options });
}

async function runBatch(engine: Engine): Promise<string> {
  const batch = await engine.submit(pipeline, numbers(3));
  await batch.wait();
  return batch.id;
}

async function catchUp(engine: Engine): Promise<void> {
  expect(await engine.waitForSubscribers({ withinMs: 20_000 })).toBe(true);
}

function listLetters(engine: Engine): Promise<UndeliveredEvent[]> {
  return collect(engine.undelivered());
}

describeOnStores("webhooks", (test) => {
  test("an event arrives with its own id and a signature that verifies", async ({ rig }) => {
    const server = await serve(ok);
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { headers: { Authorization: "Bearer x" } }));
    const id = await runBatch(engine);
    await catchUp(engine);
    const records = await rig.store.readRecords(id, 0, 100);
    expect(server.hits.map(({ event }) => event.id)).toEqual(
      records.map(({ seq }) => `${id}/${seq}`),
    );
    for (const { headers, body, event } of server.hits) {
      const nowMs = Date.now();
      expect(verifyWebhook({ secret: SECRET, headers, body, nowMs })).toEqual(event);
      expect(headers).toMatchObject({
        "webhook-id": event.id,
        "content-type": "application/json",
        authorization: "Bearer x",
      });
      expect(() =>
        verifyWebhook({ secret: "another secret of 24 bytes", headers, body, nowMs }),
      ).toThrow("no signature matches");
    }
    expect(server.hits.at(-2)?.event).toMatchObject({
      type: "batch.ended",
      batch: id,
      data: { state: "succeeded", counts: { succeeded: 3 } },
    });
  });

  test("a server that always answers 500 gets exactly the maximum of attempts, and the next event still arrives", async ({
    rig,
  }) => {
    const server = await serve((hit, response) =>
      hit.event.type === "batch.started" ? status(500)(hit, response) : ok(hit, response),
    );
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { attempts: 4 }));
    const id = await runBatch(engine);
    await catchUp(engine);
    const types = server.hits.map(({ event }) => event.type);
    expect(types.filter((type) => type === "batch.started")).toHaveLength(4);
    expect(types.filter((type) => type !== "batch.started")).toHaveLength(7);
    expect(types.at(-1)).toBe("batch.released");
    const letters = await listLetters(engine);
    expect(letters).toEqual([
      expect.objectContaining({
        reader: "hook",
        event: `${id}/2`,
        batch: id,
        type: "batch.started",
        attempts: 4,
        code: "HTTP_500",
        message: `http://127.0.0.1:${server.port} answered 500`,
      }),
    ]);
    expect(rig.logs.filter(({ event }) => event === "delivery.given_up")).toHaveLength(1);
  });

  test("temporary answers are retried until a 2xx", async ({ rig }) => {
    const codes = [408, 425, 429, 500, 502, 503, 299];
    const server = await serve((hit, response) => status(codes.shift() ?? 400)(hit, response));
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"] }));
    await runBatch(engine);
    await catchUp(engine);
    expect(server.hits).toHaveLength(7);
    expect(await listLetters(engine)).toEqual([]);
  });

  test("a permanent answer is not retried", async ({ rig }) => {
    const server = await serve(status(404));
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"] }));
    await runBatch(engine);
    await catchUp(engine);
    expect(server.hits).toHaveLength(1);
    expect(await listLetters(engine)).toMatchObject([{ attempts: 1, code: "HTTP_404" }]);
  });

  test("a server that hangs is cut off at the time limit", async ({ rig }) => {
    const closed: string[] = [];
    const server = await serve(({ event }, response) => {
      response.on("close", () => closed.push(event.id));
    });
    const engine = await rig.start();
    engine.subscribe(
      "hook",
      hook(server, { events: ["batch.ended"], timeoutMs: 250, attempts: 2 }),
    );
    await runBatch(engine);
    await catchUp(engine);
    expect(await listLetters(engine)).toMatchObject([{ attempts: 2, code: "TIME_LIMIT" }]);
    await until(() => closed.length === 2);
  });

  test("a redirect is refused, and its target is never requested", async ({ rig }) => {
    const secret = await serve(ok);
    const server = await serve(status(302, { location: secret.url }));
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"] }));
    await runBatch(engine);
    await catchUp(engine);
    expect(server.hits).toHaveLength(1);
    expect(secret.hits).toHaveLength(0);
    const [letter] = await listLetters(engine);
    expect(letter).toMatchObject({ attempts: 1, code: "HTTP_302" });
    expect(letter?.message).toContain("redirects are not followed");
  });

  test("a slow endless answer is cut off, and its 200 counts", async ({ rig }) => {
    const closed = makeSignal();
    const server = await serve((_hit, response) => {
      const drip = setInterval(() => response.write("."), 5);
      response.writeHead(200).flushHeaders();
      response.on("close", () => {
        clearInterval(drip);
        closed.give();
      });
    });
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"], timeoutMs: 400 }));
    await runBatch(engine);
    await catchUp(engine);
    await closed.wait;
    expect(server.hits).toHaveLength(1);
    expect(await listLetters(engine)).toEqual([]);
  });

  test("a huge answer is cut off long before the time limit, and its 200 counts", async ({
    rig,
  }) => {
    const closed = makeSignal();
    const server = await serve((_hit, response) => {
      const flood = (): void => {
        while (!response.destroyed && response.write("x".repeat(16_384)));
      };
      response.on("drain", flood);
      response.on("close", () => closed.give());
      flood();
    });
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"], timeoutMs: 3_600_000 }));
    await runBatch(engine);
    await catchUp(engine);
    await closed.wait;
    expect(await listLetters(engine)).toEqual([]);
  });

  test("a 200 after the time limit leads to a second delivery with the same id", async ({
    rig,
  }) => {
    const late: (() => void)[] = [];
    const server = await serve((hit, response) => {
      late.push(() => ok(hit, response));
      if (late.length < 2) return;
      for (const answer of late) answer();
    });
    const engine = await rig.start();
    engine.subscribe("hook", hook(server, { events: ["batch.ended"], timeoutMs: 300 }));
    await runBatch(engine);
    await catchUp(engine);
    const ids = server.hits.map(({ headers }) => headers["webhook-id"]);
    expect(ids.length).toBeGreaterThanOrEqual(2);
    expect(new Set(ids).size).toBe(1);
    expect(new Set(server.hits.map(({ body }) => body)).size).toBe(1);
    expect(await listLetters(engine)).toEqual([]);
  });

  test("a Retry-After is obeyed, in seconds or as a date", async ({ rig }) => {
    const answers = [
      status(503, { "retry-after": "7777" }),
      status(429, { "retry-after": new Date(Date.now() + 3_000_000).toUTCString() }),
      status(503, { "retry-after": "soon" }),
      ok,
    ];
    const server = await serve((hit, response) => answers.shift()?.(hit, response));
    const waited: number[] = [];
    const after: typeof systemClock.after = (delayMs, callback) => {
      // Only the delivery waits this long here.
      if (delayMs < 1_000_000) return systemClock.after(delayMs, callback);
      waited.push(delayMs);
      return systemClock.after(0, callback);
    };
    const engine = await rig.start({ clock: { ...systemClock, after } });
    engine.subscribe("hook", hook(server, { events: ["batch.ended"] }));
    await runBatch(engine);
    await catchUp(engine);
    expect(server.hits).toHaveLength(4);
    // The first one is limited to an hour.
    expect(waited).toHaveLength(2);
    expect(waited[0]).toBe(3_600_000);
    expect(waited[1]).toBeGreaterThan(2_900_000);
    expect(waited[1]).toBeLessThanOrEqual(3_000_000);
  });

  test("no secret is in a log or an undelivered event", async ({ rig }) => {
    const server = await serve(status(500));
    const engine = await rig.start();
    const confident = {
      url: `${server.url}/path-secret?token=query-secret`,
      headers: { authorization: "header-secret" },
    };
    engine.subscribe("failing", hook(server, { ...confident, attempts: 2 }));
    const gone = await serve(ok);
    await gone.close();
    servers.splice(servers.indexOf(gone), 1);
    const unreachable = `${gone.url}/path-secret?token=query-secret`;
    engine.subscribe("gone", hook(gone, { ...confident, url: unreachable, attempts: 2 }));
    await runBatch(engine);
    await catchUp(engine);
    expect(server.hits[0]?.path).toContain("path-secret");
    const letters = await listLetters(engine);
    expect(new Set(letters.map(({ code }) => code))).toEqual(new Set(["HTTP_500", "ECONNREFUSED"]));
    const told = inspect([rig.logs, letters], { depth: 20, maxStringLength: null });
    for (const secret of [SECRET, "path-secret", "query-secret", "header-secret"]) {
      expect(told).not.toContain(secret);
    }
  });

  test("a crash between a delivery and its saved position repeats it with the same id", async ({
    rig,
  }) => {
    const server = await serve(ok);
    // The first engine never learns that the position was saved, as if it had died there.
    const doomed: Store = { ...rig.store, savePosition: never };
    const first = await rig.start({}, doomed);
    first.subscribe("hook", hook(server));
    const batch = await first.submit(pipeline, numbers(3));
    await until(() => server.hits.length === 1);
    await batch.wait();
    await first.close({ drainMs: 0 });
    const second = await rig.startBeside();
    second.subscribe("hook", hook(server));
    await catchUp(second);
    const ids = server.hits.map(({ headers }) => headers["webhook-id"]);
    const inOrder = [1, 2, 3, 4, 5, 6, 7, 8].map((seq) => `${batch.id}/${seq}`);
    expect(ids).toEqual([inOrder[0], ...inOrder]);
    expect(server.hits[0]?.body).toBe(server.hits[1]?.body);
  });

  test("a delivery that close() cuts off is neither counted nor given up", async ({ rig }) => {
    let isHanging = true;
    const server = await serve((hit, response) => {
      if (!isHanging) ok(hit, response);
    });
    const options = { events: ["batch.ended"], attempts: 1 } as const;
    const first = await rig.start();
    first.subscribe("hook", hook(server, options));
    await runBatch(first);
    await until(() => server.hits.length === 1);
    await first.close({ drainMs: 0 });
    isHanging = false;
    const second = await rig.startBeside();
    second.subscribe("hook", hook(server, options));
    await catchUp(second);
    expect(server.hits).toHaveLength(2);
    expect(await listLetters(second)).toEqual([]);
  });

  describe("to a name", () => {
    afterEach(() => vi.restoreAllMocks());

    const resolveTo = (...addresses: string[]): void => {
      const answer = addresses.map((address) => ({ address, family: 4 }));
      vi.spyOn(dns, "lookup").mockImplementation(((
        _host: string,
        _options: object,
        done: (error: null, addresses: object[]) => void,
      ) => done(null, answer)) as never);
    };

    for (const addresses of [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["10.1.2.3"]]) {
      test(`that resolves to ${addresses.join(" and ")} are refused, and nothing is requested`, async ({
        rig,
      }) => {
        const server = await serve(ok);
        resolveTo(...addresses);
        const engine = await rig.start();
        const url = `http://hooks.example:${server.port}/`;
        const sink = webhookSink({ url, secret: SECRET, events: ["batch.ended"] });
        engine.subscribe("hook", sink);
        await runBatch(engine);
        await catchUp(engine);
        expect(server.hits).toHaveLength(0);
        const [letter] = await listLetters(engine);
        expect(letter).toMatchObject({ attempts: 1, code: "ADDRESS_REFUSED" });
        expect(letter?.message).toContain(`hooks.example resolves to ${addresses.at(-1)}`);
      });
    }

    test("connect to the address that was checked, resolved once for each delivery", async ({
      rig,
    }) => {
      const server = await serve(ok);
      resolveTo("127.0.0.1");
      const engine = await rig.start();
      const url = `http://hooks.example:${server.port}/`;
      engine.subscribe("hook", hook(server, { url, events: ["batch.ended"] }));
      await runBatch(engine);
      await catchUp(engine);
      expect(server.hits).toHaveLength(1);
      expect(server.hits[0]?.headers["host"]).toBe(`hooks.example:${server.port}`);
      expect(dns.lookup).toHaveBeenCalledTimes(1);
    });
  });
});

describeOnStores("commands and files", (test) => {
  test("a command runs once for each event, and a failing one is given up", async ({ rig }) => {
    const out = join(rig.folder, "heard.txt");
    const script = `
      require("node:fs").appendFileSync(process.argv[1], process.env.SLUICE_EVENT_ID + "\\n");
      if (process.env.SLUICE_EVENT === "slicing.started") { console.error("no paper"); process.exit(3); }`;
    const engine = await rig.start();
    const sink = commandSink({
      run: [process.execPath, "-e", script, out],
      events: ["slicing.started", "batch.ended"],
      attempts: 2,
      backoff: AT_ONCE,
    });
    engine.subscribe("command", sink);
    const id = await runBatch(engine);
    await catchUp(engine);
    const heard = readFileSync(out, "utf8").trimEnd().split("\n");
    expect(heard).toEqual([`${id}/3`, `${id}/3`, `${id}/7`]);
    const [letter, ...more] = await listLetters(engine);
    expect(more).toEqual([]);
    expect(letter).toMatchObject({ attempts: 2, code: "COMMAND_FAILED" });
    expect(letter?.message).toMatch(/exited with 3: no paper$/);
  });

  test("a missing command is given up at once", async ({ rig }) => {
    const engine = await rig.start();
    const missing = join(rig.folder, "nothing");
    engine.subscribe("command", commandSink({ run: [missing], events: ["batch.ended"] }));
    await runBatch(engine);
    await catchUp(engine);
    expect(await listLetters(engine)).toMatchObject([{ attempts: 1, code: "COMMAND_MISSING" }]);
  });

  test("a file gets a line for each event, even after a crash in the middle of a line", async ({
    rig,
  }) => {
    const path = join(rig.folder, "log/events.jsonl");
    const torn: Store = { ...rig.store, savePosition: never };
    const first = await rig.start({}, torn);
    first.subscribe("log", fileSink({ path }));
    const batch = await first.submit(pipeline, numbers(3));
    await until(() => existsSync(path) && readFileSync(path, "utf8").endsWith("\n"));
    await batch.wait();
    await first.close({ drainMs: 0 });
    writeFileSync(path, readFileSync(path, "utf8").slice(0, -30));
    const second = await rig.startBeside();
    second.subscribe("log", fileSink({ path }));
    await catchUp(second);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    const ids = lines.map((line) => (JSON.parse(line) as { id: string }).id);
    expect(ids).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map((seq) => `${batch.id}/${seq}`));
  });
});
