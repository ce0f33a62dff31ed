/** What arrives of a document, its limits, and what is left when it does not arrive. */
import { lstat, mkdir, readFile, symlink } from "node:fs/promises";
import type { RequestListener } from "node:http";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { PermanentError, TransientError } from "sluice";
import { describe, expect, test } from "vitest";
import { makeAddressGuard } from "./address-guard.ts";
import { makeFetcher } from "./fetch-document.ts";
import { LIMITS, type Portal, startPortal, startRawPortal, startRig } from "./fetch-rig.ts";

const text =
  (body: string, headers: Record<string, string> = {}): RequestListener =>
  (_request, response) =>
    response.writeHead(200, headers).end(body);

/** A raw answer, sent when the request has arrived. */
const speak =
  (bytes: string, then: (socket: Socket) => void = () => undefined) =>
  (socket: Socket): void => {
    socket.once("data", () => socket.write(bytes, () => then(socket)));
  };

const chunk = (body: string): string => `${body.length.toString(16)}\r\n${body}\r\n`;
/** When a server has sent this much, the client has written some of it: sockets buffer less. */
const MORE_THAN_BUFFERS_BYTES = 32 * 1_048_576;
const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

describe.concurrent("a document", () => {
  test("is written unchanged, and returned with its size, address and declared type", async (scope) => {
    const headers = { "content-type": "application/pdf; x=y" };
    const portal = await startPortal(scope, text("hello", headers));
    const { fetch, target } = await startRig(scope);
    const fetched = await fetch("/a.pdf?token=1#page=2", portal.origin);
    const url = `${portal.origin}/a.pdf?token=1`;
    scope.expect(fetched).toEqual({ bytes: 5, url, mediaType: "application/pdf; x=y" });
    scope.expect(await readFile(target, "utf8")).toBe("hello");
    scope.expect(portal.asked).toEqual(["/a.pdf?token=1"]);
  });

  test("may be empty and without a declared type", async (scope) => {
    const portal = await startPortal(scope, text(""));
    const { fetch, target } = await startRig(scope);
    const fetched = await fetch("/", portal.origin);
    scope.expect(fetched).toMatchObject({ bytes: 0, mediaType: null });
    scope.expect(await readFile(target, "utf8")).toBe("");
  });

  test("replaces what an earlier attempt left at its target", async (scope) => {
    const bodies = ["long long ago", "now"];
    const portal = await startPortal(scope, (_request, response) => {
      response.end(bodies.shift());
    });
    const { fetch, target } = await startRig(scope);
    await fetch("/", portal.origin);
    await fetch("/", portal.origin);
    scope.expect(await readFile(target, "utf8")).toBe("now");
  });

  test("is requested without encoding and cookies, over a reused connection", async (scope) => {
    const seen: unknown[] = [];
    const portal = await startPortal(scope, ({ headers }, response) => {
      seen.push(headers);
      response.writeHead(200, { "set-cookie": "a=b" }).end("x");
    });
    const { fetch } = await startRig(scope, { connectionsMax: 1 });
    await fetch("/", portal.origin);
    await fetch("/", portal.origin);
    const expected = {
      "accept-encoding": "identity",
      host: `127.0.0.1:${portal.port}`,
      connection: "keep-alive",
      accept: "*/*",
      "user-agent": "sluice-site-packets",
    };
    scope.expect(seen).toEqual([expected, expected]);
    scope.expect(portal.connections()).toBe(1);
  });
});

describe.concurrent("the limit of bytes", () => {
  const full = "x".repeat(LIMITS.bytesMax);

  test.for(["a declared", "a chunked"])(
    "allows %s document of exactly the limit, and refuses one byte more",
    async (kind, scope) => {
      const answer: RequestListener = ({ url }, response) => {
        const body = url === "/more" ? `${full}y` : full;
        if (kind === "a declared") response.setHeader("content-length", body.length);
        else response.write(body.slice(0, 10));
        response.end(kind === "a declared" ? body : body.slice(10));
      };
      const portal = await startPortal(scope, answer);
      const { fetch, fail, hasTarget } = await startRig(scope);
      expect(await fetch("/", portal.origin)).toMatchObject({ bytes: LIMITS.bytesMax });
      const error = await fail("/more", portal.origin);
      expect(error).toBeInstanceOf(PermanentError);
      expect(error).toMatchObject({ code: "TOO_LARGE" });
      expect((error as Error).message).toContain("bytesMax");
      // The one refused by its head has not changed the earlier file.
      expect(hasTarget()).toBe(kind === "a declared");
    },
  );

  test("stops an endless document, and closes its connection", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => {
      Readable.from(endless(100))
        .on("error", () => undefined)
        .pipe(response);
    });
    const { fail, hasTarget } = await startRig(scope);
    scope.expect(await fail("/", portal.origin)).toMatchObject({ code: "TOO_LARGE" });
    scope.expect(hasTarget()).toBe(false);
    await portal.whenIdle();
  });

  test("refuses a document with too large a declared length before its body", async (scope) => {
    const portal = await startRawPortal(
      scope,
      speak("HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n"),
    );
    const { fail, hasTarget } = await startRig(scope);
    const error = await fail("/", portal.origin);
    scope.expect(error).toMatchObject({ code: "TOO_LARGE" });
    scope.expect((error as Error).message).toContain("999999999999 bytes");
    scope.expect(hasTarget()).toBe(false);
    await portal.whenIdle();
  });

  test("is the declared length if that is smaller", async (scope) => {
    const head = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
    const portal = await startRawPortal(scope, speak(`${head}${"x".repeat(5_000)}`));
    const { fetch, target } = await startRig(scope);
    scope.expect(await fetch("/", portal.origin)).toMatchObject({ bytes: 3 });
    scope.expect(await readFile(target, "utf8")).toBe("xxx");
  });

  test.for([
    ["a length and chunks", "content-length: 3\r\ntransfer-encoding: chunked"],
    ["two lengths", "content-length: 3\r\ncontent-length: 5000"],
    ["a length below zero", "content-length: -1"],
    ["a length that is no number", "content-length: lots"],
  ])("refuses an answer with %s", async ([, headers], scope) => {
    const body = `${chunk("x".repeat(2_000))}0\r\n\r\n`;
    const portal = await startRawPortal(
      scope,
      speak(`HTTP/1.1 200 OK\r\n${headers}\r\n\r\n${body}`),
    );
    const { fail, hasTarget } = await startRig(scope);
    expect(await fail("/", portal.origin)).toMatchObject({ code: "DOWNLOAD_FAILED" });
    expect(hasTarget()).toBe(false);
  });
});

describe.concurrent("a server that is slow", () => {
  const expectTimeout = async (
    { fail, hasTarget }: Awaited<ReturnType<typeof startRig>>,
    portal: Portal,
    told: RegExp,
  ): Promise<void> => {
    const error = await fail("/a?token=secret", portal.origin);
    expect(error).toBeInstanceOf(TransientError);
    expect(error).toMatchObject({ code: "DOWNLOAD_FAILED" });
    expect((error as Error).message).toMatch(told);
    expect((error as Error).message).not.toContain("secret");
    expect(hasTarget()).toBe(false);
    await portal.whenIdle();
  };

  test("before the head of its answer is given up after headersMs", async (scope) => {
    const portal = await startRawPortal(scope, () => undefined);
    const rig = await startRig(scope, { limits: { headersMs: 50 } });
    await expectTimeout(rig, portal, /UND_ERR_HEADERS_TIMEOUT/u);
  });

  test("within a body is given up after idleMs", async (scope) => {
    const portal = await startRawPortal(scope, speak(`${CHUNKED}${chunk("abc")}`));
    const rig = await startRig(scope, { limits: { idleMs: 50 } });
    await expectTimeout(rig, portal, /UND_ERR_BODY_TIMEOUT/u);
  });

  test("with a steady drip of bytes is given up after totalMs", async (scope) => {
    const portal = await startRawPortal(
      scope,
      speak(CHUNKED, (socket) => {
        const drip = setInterval(() => socket.write(chunk(".")), 5);
        socket.once("close", () => clearInterval(drip));
      }),
    );
    const rig = await startRig(scope, { limits: { totalMs: 300 } });
    await expectTimeout(rig, portal, /TimeoutError: .* totalMs, 300 ms/u);
  });

  test("with a head that never ends is given up after totalMs", async (scope) => {
    const portal = await startRawPortal(
      scope,
      speak("HTTP/1.1 200 OK\r\n", (socket) => {
        const drip = setInterval(() => socket.write("a: b\r\n"), 50);
        socket.once("close", () => clearInterval(drip));
      }),
    );
    const rig = await startRig(scope, { limits: { totalMs: 300 } });
    await expectTimeout(rig, portal, /totalMs/u);
  });

  test("during connecting is given up after connectMs, or at the end of totalMs", async (scope) => {
    const resolve = (): void => undefined;
    const slow = await startRig(scope, { resolve, limits: { connectMs: 50 } });
    const error = await slow.fail("/", "http://portal.test");
    scope.expect(error).toBeInstanceOf(TransientError);
    scope.expect((error as Error).message).toContain("UND_ERR_CONNECT_TIMEOUT");
    const late = await startRig(scope, { resolve, limits: { totalMs: 50 } });
    const other = await late.fail("/", "http://portal.test");
    scope.expect((other as Error).message).toContain("totalMs");
  });
});

describe.concurrent("a caller that aborts", () => {
  test("during a body gets its own reason back, and leaves neither a file nor a connection", async (scope) => {
    const caller = new AbortController();
    const reason = { its: "own" };
    let sentBytes = 0;
    function* send(): Generator<Buffer> {
      for (const piece of endless(65_536)) {
        sentBytes += piece.length;
        if (sentBytes > MORE_THAN_BUFFERS_BYTES) caller.abort(reason);
        yield piece;
      }
    }
    const portal = await startPortal(scope, (_request, response) => {
      Readable.from(send(), { highWaterMark: 1 }).pipe(response);
    });
    const { fail, hasTarget } = await startRig(scope, { limits: { bytesMax: 10 ** 9 } });
    scope.expect(await fail("/", portal.origin, caller.signal)).toBe(reason);
    scope.expect(hasTarget()).toBe(false);
    await portal.whenIdle();
  });

  test("before the answer gets its own reason back, and leaves no connection", async (scope) => {
    const caller = new AbortController();
    const reason = new Error("stop");
    const portal = await startPortal(scope, () => caller.abort(reason));
    const { fail } = await startRig(scope);
    scope.expect(await fail("/", portal.origin, caller.signal)).toBe(reason);
    await portal.whenIdle();
  });

  test("while it waits for a connection is released at once", async (scope) => {
    const caller = new AbortController();
    const reason = new Error("stop");
    const portal = await startPortal(scope, () => caller.abort(reason));
    const { fail } = await startRig(scope, { connectionsMax: 1 });
    // Hangs until the fetcher is closed.
    const first = fail("/first", portal.origin);
    scope.expect(await fail("/second", portal.origin, caller.signal)).toBe(reason);
    scope.expect(portal.asked).toEqual(["/first"]);
    void first;
  });

  test("before the start sends no request", async (scope) => {
    const portal = await startPortal(scope, text("x"));
    const { fail } = await startRig(scope);
    const reason = new Error("stop");
    scope.expect(await fail("/", portal.origin, AbortSignal.abort(reason))).toBe(reason);
    scope.expect(portal.connections()).toBe(0);
  });

  test("and closes the fetcher ends hanging downloads", async (scope) => {
    const asked = Promise.withResolvers<boolean>();
    const portal = await startPortal(scope, (_request, response) => {
      response.write("abc", () => asked.resolve(true));
    });
    const guard = makeAddressGuard(["127.0.0.0/8"]);
    const fetcher = makeFetcher({ limits: LIMITS, guard });
    const rig = await startRig(scope);
    const { signal } = new AbortController();
    const site = { origin: portal.origin, hosts: [] };
    const fetched = fetcher.fetch("/", site, rig.target, { signal });
    const failed = scope.expect(fetched).rejects.toBeInstanceOf(TransientError);
    await asked.promise;
    await fetcher.close();
    await failed;
  });
});

describe.concurrent("the disk", () => {
  test.for([
    ["a folder that is not there", "ENOENT", "/x"],
    ["a target that is a folder", "EISDIR", ""],
  ])("fails with %s unchanged, and the connection is closed", async ([, code, suffix], scope) => {
    const portal = await startPortal(scope, (_request, response) => response.write("abc"));
    const { fail, target } = await startRig(scope);
    if (code === "EISDIR") await mkdir(target);
    const error = await fail("/", portal.origin, undefined, `${target}${suffix}`);
    expect(error).not.toBeInstanceOf(PermanentError);
    expect(error).not.toBeInstanceOf(TransientError);
    expect(error).toMatchObject({ code, syscall: "open" });
    await portal.whenIdle();
  });

  test("that is full fails unchanged, and no partial file is left", async (scope) => {
    const portal = await startPortal(scope, text("hello"));
    const { fail, target } = await startRig(scope);
    await symlink("/dev/full", target);
    const error = await fail("/", portal.origin);
    scope.expect(error).toMatchObject({ code: "ENOSPC", syscall: "write" });
    await scope.expect(lstat(target)).rejects.toMatchObject({ code: "ENOENT" });
    await lstat("/dev/full");
  });
});

test.each([
  { bytesMax: 0 },
  { bytesMax: 1.5 },
  { headersMs: 0 },
  { idleMs: Number.NaN },
  { totalMs: 2 ** 31 },
  { redirectsMax: -1 },
])("an invalid limit is refused when the fetcher is made: %o", (limits) => {
  const guard = makeAddressGuard([]);
  expect(() => makeFetcher({ limits: { ...LIMITS, ...limits }, guard })).toThrow(
    expect.objectContaining({ code: "BAD_FETCH_LIMIT" }),
  );
});

function* endless(pieceBytes: number): Generator<Buffer> {
  const piece = Buffer.alloc(pieceBytes, "x");
  for (;;) yield piece;
}
