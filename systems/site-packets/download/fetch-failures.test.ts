/** The errors of failed downloads, and so whether and when Sluice retries them. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import {
  createEngine,
  definePipeline,
  describeError,
  PermanentError,
  TransientError,
} from "sluice";
import { openMemory } from "sluice/memory";
import { describe, expect, test } from "vitest";
import { startPortal, startRawPortal, startRig } from "./fetch-rig.ts";

const OK = "HTTP/1.1 200 OK\r\n";

const speakAndEnd =
  (bytes: string, end: (socket: Socket) => void) =>
  (socket: Socket): void => {
    socket.once("data", () => socket.write(bytes, () => end(socket)));
  };

describe.concurrent("the status of an answer", () => {
  test.for([
    400, 401, 403, 404, 405, 406, 407, 409, 410, 414, 418, 422, 451, 204, 205, 206, 300, 304,
  ])("%d is permanent, and the error has the status", async (status, scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      response.writeHead(status).end();
    });
    const { fail, hasTarget } = await startRig(scope);
    const error = await fail("/a?token=secret", portal.origin);
    scope.expect(error).toBeInstanceOf(PermanentError);
    scope.expect(error).toMatchObject({
      code: "DOWNLOAD_FAILED",
      status,
      message: `${portal.origin}/a: the server answered ${status}`,
    });
    scope.expect(describeError(error)).toMatchObject({ errorClass: "permanent" });
    scope.expect(hasTarget()).toBe(false);
  });

  test.for([202, 408, 425, 429, 500, 502, 503, 504, 599])(
    "%d is transient, and the error has the status",
    async (status, scope) => {
      const portal = await startPortal(scope, (_request, response) => {
        response.writeHead(status).end("an apology");
      });
      const { fail } = await startRig(scope);
      const error = await fail("/", portal.origin);
      scope.expect(error).toBeInstanceOf(TransientError);
      scope.expect(error).toMatchObject({ code: "DOWNLOAD_FAILED", status });
      scope.expect(describeError(error)).toMatchObject({
        errorClass: "transient",
        isThrottled: status === 429,
      });
    },
  );

  test("is reported although its body hangs, and the connection is closed", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      response.writeHead(404).write("abc");
    });
    const { fail } = await startRig(scope);
    scope.expect(await fail("/", portal.origin)).toMatchObject({ status: 404 });
    await portal.whenIdle();
  });

  test("is reported although its body is endless, and little of it is read", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      response.writeHead(500, { "content-length": 10 ** 12 }).write("abc");
    });
    const { fail } = await startRig(scope);
    scope.expect(await fail("/", portal.origin)).toMatchObject({ status: 500 });
    await portal.whenIdle();
  });
});

describe.concurrent("an answer with Retry-After", () => {
  const facts = async (
    scope: Parameters<typeof startRig>[0],
    status: number,
    headers: Record<string, string>,
  ): Promise<ReturnType<typeof describeError>> => {
    const portal = await startPortal(scope, (_request, response) => {
      response.sendDate = false;
      response.writeHead(status, { ...headers, "set-cookie": "secret" }).end();
    });
    const { fail } = await startRig(scope);
    const error = await fail("/", portal.origin);
    expect(JSON.stringify(error)).not.toContain("secret");
    return describeError(error);
  };

  test.for([429, 503])(
    "with %d and seconds closes the key for that long",
    async (status, scope) => {
      const found = await facts(scope, status, { "retry-after": "7" });
      scope.expect(found).toMatchObject({ retryAfterMs: 7_000, isThrottled: true });
    },
  );

  test("with a date closes the key until then, by the server's own clock", async (scope) => {
    const found = await facts(scope, 503, {
      date: "Tue, 01 Jan 2030 00:00:00 GMT",
      "retry-after": "Tue, 01 Jan 2030 00:01:00 GMT",
    });
    scope.expect(found).toMatchObject({ retryAfterMs: 60_000, isThrottled: true });
  });

  test("with another status closes nothing", async (scope) => {
    const found = await facts(scope, 500, { "retry-after": "7" });
    scope.expect(found).toMatchObject({ retryAfterMs: null, isThrottled: false });
  });

  test("closes the key of its site in a pipeline, and no other key", async (scope) => {
    const order: string[] = [];
    const startSite = (site: string): ReturnType<typeof startPortal> =>
      startPortal(scope, (_request, response) => {
        order.push(site);
        if (order.length > 1) response.end("x");
        else response.writeHead(429, { "retry-after": "1" }).end();
      });
    const portals = { a: await startSite("a"), b: await startSite("b") };
    const { fetch } = await startRig(scope);
    const pipeline = definePipeline({
      name: "fetching",
      concurrency: 1,
      rate: { key: (site: "a" | "b") => site },
      process: async (site, { signal }) => (await fetch("/", portals[site].origin, signal)).bytes,
    });
    const engine = await createEngine({ store: openMemory() });
    scope.onTestFinished(() => engine.close());
    const batch = await engine.submit(pipeline, ["a", "b", "a", "b"]);
    scope.expect(await batch.wait()).toMatchObject({ state: "succeeded" });
    scope.expect(order).toEqual(["a", "b", "b", "a", "a"]);
  });
});

describe.concurrent("a connection that fails", () => {
  test.for<[string, string, (socket: Socket) => void]>([
    ["is reset in mid-body", `${OK}content-length: 9\r\n\r\nabc`, (s) => s.resetAndDestroy()],
    ["ends before the declared length", `${OK}content-length: 9\r\n\r\nabc`, (s) => s.end()],
    [
      "ends before the declared length, as announced",
      `${OK}content-length: 9\r\nconnection: close\r\n\r\nabc`,
      (s) => s.end(),
    ],
    [
      "ends before the last chunk",
      `${OK}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`,
      (s) => s.end(),
    ],
    [
      "ends before the last chunk, as announced",
      `${OK}transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n`,
      (s) => s.end(),
    ],
    ["ends within the head", OK, (s) => s.end()],
    ["ends without an answer", "", (s) => s.end()],
    ["is reset without an answer", "", (s) => s.resetAndDestroy()],
    ["speaks another language", "220 mail.example ESMTP\r\n", (s) => s.end()],
    ["sends a head without measure", `${OK}a: ${"b".repeat(20_000)}\r\n\r\n`, (s) => s.end()],
  ])("and %s is transient and leaves no file", async ([, bytes, end], scope) => {
    const portal = await startRawPortal(scope, speakAndEnd(bytes, end));
    const { fail, hasTarget } = await startRig(scope);
    const error = await fail("/a?token=secret", portal.origin);
    scope.expect(error).toBeInstanceOf(TransientError);
    scope.expect(error).toMatchObject({ code: "DOWNLOAD_FAILED", cause: expect.any(Error) });
    scope.expect((error as Error).message).toMatch(new RegExp(`^${portal.origin}/a: `, "u"));
    scope.expect((error as Error).message).not.toContain("secret");
    scope.expect(hasTarget()).toBe(false);
  });

  test("and is refused is transient for every waiting download", async (scope) => {
    const closed = createServer().listen(0, "127.0.0.1");
    await once(closed, "listening");
    const { port } = closed.address() as AddressInfo;
    closed.close();
    await once(closed, "close");
    const { fail } = await startRig(scope, { connectionsMax: 2 });
    const origin = `http://127.0.0.1:${port}`;
    const errors = await Promise.all(Array.from({ length: 6 }, () => fail("/", origin)));
    for (const error of errors) {
      scope.expect(error).toBeInstanceOf(TransientError);
      scope.expect((error as Error).message).toContain("ECONNREFUSED");
    }
  });

  test.for(["ENOTFOUND", "EAI_AGAIN"])("and whose name is %s is transient", async (code, scope) => {
    const { fail } = await startRig(scope, {
      resolve: (hostname, _options, callback) =>
        callback(Object.assign(new Error(`getaddrinfo ${code} ${hostname}`), { code }), []),
    });
    const error = await fail("/", "http://portal.test");
    scope.expect(error).toBeInstanceOf(TransientError);
    scope.expect(error).toMatchObject({ code: "DOWNLOAD_FAILED", cause: { code } });
  });
});

describe.concurrent("an encoded answer", () => {
  test.for(["gzip", "br", "Identity, GZIP", "x-unknown"])(
    "is refused: %s",
    async (encoding, scope) => {
      const portal = await startPortal(scope, (_request, response) => {
        response.writeHead(200, { "content-encoding": encoding }).end("x");
      });
      const { fail, hasTarget } = await startRig(scope);
      const error = await fail("/", portal.origin);
      scope.expect(error).toBeInstanceOf(PermanentError);
      scope.expect(error).toMatchObject({ code: "DOWNLOAD_FAILED" });
      scope.expect((error as Error).message).toContain("content-encoding");
      scope.expect(hasTarget()).toBe(false);
    },
  );

  test("is refused if only the second of two headers says so", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      response.setHeader("content-encoding", ["identity", "gzip"]).end("x");
    });
    const { fail } = await startRig(scope);
    scope.expect(await fail("/", portal.origin)).toBeInstanceOf(PermanentError);
  });

  test("with the encoding identity is accepted", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      response.writeHead(200, { "content-encoding": "identity" }).end("x");
    });
    const { fetch } = await startRig(scope);
    scope.expect(await fetch("/", portal.origin)).toMatchObject({ bytes: 1 });
  });
});
