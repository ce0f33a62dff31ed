/**
 * Addresses that a download must never reach: by a link, by a redirect, or by name resolution.
 * Everything stays on loopback, where 127.0.0.1 is allowed and its neighbours are not: a broken
 * guard must not reach a cloud's metadata during the test.
 */
import { readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import { dirname } from "node:path";
import { PermanentError } from "sluice";
import { describe, expect, test } from "vitest";
import { makeCertificates } from "../../../test/support/certificates.ts";
import type { ResolveName } from "./address-guard.ts";
import {
  listen,
  type Portal,
  resolveTo,
  startPortal,
  startRawPortal,
  startRig,
  type TestScope,
} from "./fetch-rig.ts";

const expectRefused = (error: unknown, code: string, told: RegExp): void => {
  expect(error).toBeInstanceOf(PermanentError);
  expect(error).toMatchObject({ code });
  expect((error as Error).message).toMatch(told);
  expect((error as Error).message).not.toContain("secret");
};

/** Redirects by its path: `/to?<location>`; any other path is a document. */
const startRedirecting = (scope: TestScope, status = 302): Promise<Portal> =>
  startPortal(scope, ({ url = "" }, response) => {
    const [path, location = ""] = url.split("?", 2);
    if (path !== "/to") response.end("x");
    else response.writeHead(status, { location: decodeURIComponent(location) }).end("moved");
  });

const to = (location: string): string => `/to?${encodeURIComponent(location)}`;

describe.concurrent("a link", () => {
  test("to a private address is refused without a connection", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => response.end("x"));
    const { fail } = await startRig(scope, { allowPrivate: [] });
    const error = await fail("/a?secret", portal.origin);
    expectRefused(
      error,
      "FORBIDDEN_ADDRESS",
      /127\.0\.0\.1 is not a public address.*allowPrivate/u,
    );
    scope.expect(portal.connections()).toBe(0);
  });

  test("to another host is refused", async (scope) => {
    const { fail } = await startRig(scope, { resolve: resolveTo("127.0.0.1") });
    const error = await fail("http://evil.example/?secret", "http://127.0.0.1");
    expectRefused(error, "FORBIDDEN_URL", /evil\.example.*hosts/u);
  });

  test("to one of the site's hosts is followed", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => response.end("x"));
    const { fetch } = await startRig(scope, { resolve: resolveTo("127.0.0.1") });
    const hosts = [`files.test:${portal.port}`];
    const site = { origin: "http://portal.test", hosts };
    scope.expect(await fetch(`//${hosts[0]}/a`, site)).toMatchObject({ bytes: 1 });
  });
});

describe.concurrent("a redirect", () => {
  test.for([301, 302, 303, 307, 308])("by %d is followed", async (status, scope) => {
    const portal = await startRedirecting(scope, status);
    const { fetch } = await startRig(scope);
    const fetched = await fetch(to("/there?a=b#c"), portal.origin);
    scope.expect(fetched).toMatchObject({ bytes: 1, url: `${portal.origin}/there?a=b` });
  });

  test.for([
    ["http://127.0.0.2/latest/meta-data?secret", "FORBIDDEN_URL"],
    ["http://127.0.0.1:1/?secret", "FORBIDDEN_URL"],
    ["//evil.example/?secret", "FORBIDDEN_URL"],
    ["http://user:secret@127.0.0.1/", "FORBIDDEN_URL"],
    ["file:///etc/passwd", "FORBIDDEN_URL"],
    ["http://secret:x:y/", "FORBIDDEN_URL"],
    // Named for the site by mistake, but not an address of its documents.
    ["http://127.0.0.3/?secret", "FORBIDDEN_ADDRESS"],
    ["http://metadata.test/?secret", "FORBIDDEN_ADDRESS"],
  ] as const)("to %s is refused", async ([location, code], scope) => {
    const portal = await startRedirecting(scope);
    const { fail, hasTarget } = await startRig(scope, {
      allowPrivate: ["127.0.0.1/32"],
      resolve: resolveTo("127.0.0.4"),
    });
    const site = { origin: portal.origin, hosts: ["127.0.0.3", "metadata.test"] };
    const error = await fail(to(location), site);
    expectRefused(
      error,
      code,
      /redirects|metadata\.test resolves to a refused address: 127\.0\.0\.4/u,
    );
    scope.expect(hasTarget()).toBe(false);
  });

  test("after the maximum of redirects is refused, so a loop ends", async (scope) => {
    const portal = await startRedirecting(scope);
    const { fetch, fail } = await startRig(scope, { limits: { redirectsMax: 2 } });
    scope.expect(await fetch(to(to("/x")), portal.origin)).toMatchObject({ bytes: 1 });
    const error = await fail(to(to(to("/x"))), portal.origin);
    expectRefused(error, "FORBIDDEN_URL", /more than 2 redirects.*redirectsMax/u);

    const loop = await startPortal(scope, (_request, response) => {
      response.writeHead(302, { location: "/again?secret" }).end();
    });
    expectRefused(await fail("/", loop.origin), "FORBIDDEN_URL", /redirects/u);
    scope.expect(loop.asked).toHaveLength(3);
  });

  test("is refused at once if none is allowed", async (scope) => {
    const portal = await startRedirecting(scope);
    const { fail } = await startRig(scope, { limits: { redirectsMax: 0 } });
    expectRefused(await fail(to("/x"), portal.origin), "FORBIDDEN_URL", /more than 0/u);
    scope.expect(portal.asked).toHaveLength(1);
  });

  test("without a location is refused", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => response.writeHead(302).end());
    const { fail } = await startRig(scope);
    expectRefused(await fail("/", portal.origin), "DOWNLOAD_FAILED", /without a location/u);
  });

  test("with a body that never ends is followed nevertheless", async (scope) => {
    const portal = await startPortal(scope, ({ url }, response) => {
      if (url === "/there") response.end("x");
      else response.writeHead(302, { location: "/there" }).write("y".repeat(200_000));
    });
    const { fetch } = await startRig(scope);
    scope.expect(await fetch("/", portal.origin)).toMatchObject({ bytes: 1 });
  });
});

describe.concurrent("a name", () => {
  test("with a private address beside a public one is refused before any connection", async (scope) => {
    const portal = await startPortal(scope, (_request, response) => response.end("x"));
    const { fail } = await startRig(scope, {
      allowPrivate: ["127.0.0.1/32"],
      resolve: resolveTo("127.0.0.1", "127.0.0.5"),
    });
    const error = await fail("/?secret", `http://portal.test:${portal.port}`);
    expectRefused(
      error,
      "FORBIDDEN_ADDRESS",
      /portal\.test resolves to a refused address: 127\.0\.0\.5.*allowPrivate/u,
    );
    scope.expect(portal.connections()).toBe(0);
  });

  test("that changes its addresses is connected to as checked, and checked for each connection", async (scope) => {
    // Both could answer: if the name were looked up again for the connection, it would lead to the
    // second.
    const answer = (socket: Socket): void => {
      socket.once("data", () => {
        socket.end("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx");
      });
    };
    const vetted = await startRawPortal(scope, answer);
    const inner = await startRawPortal(scope, answer, { host: "127.0.0.2", port: vetted.port });
    let looked = 0;
    const rebind: ResolveName = (...args) =>
      resolveTo(looked++ === 0 ? "127.0.0.1" : "127.0.0.2")(...args);
    const { fetch, fail } = await startRig(scope, {
      allowPrivate: ["127.0.0.1/32"],
      resolve: rebind,
    });
    const origin = `http://portal.test:${vetted.port}`;
    scope.expect(await fetch("/", origin)).toMatchObject({ bytes: 1 });
    scope.expect([looked, vetted.connections()]).toEqual([1, 1]);
    expectRefused(await fail("/", origin), "FORBIDDEN_ADDRESS", /refused address: 127\.0\.0\.2/u);
    scope.expect([looked, vetted.connections(), inner.connections()]).toEqual([2, 1, 0]);
  });
});

describe("over TLS", () => {
  const startSecure = async (
    scope: TestScope,
    location: string | null,
  ): Promise<Portal & { authority: string }> => {
    const files = await makeCertificates("DNS:portal.test", {});
    scope.onTestFinished(() => rm(dirname(files.authority), { recursive: true }));
    const [key, cert] = [await readFile(files.key), await readFile(files.certificate)];
    const server = createServer({ key, cert }, (_request, response) => {
      if (location === null) response.end("x");
      else response.writeHead(302, { location }).end();
    });
    const portal = await listen(scope, server, [], { host: "127.0.0.1", port: 0 });
    return { ...portal, authority: await readFile(files.authority, "utf8") };
  };

  test("a server that cannot prove its identity is refused, unless its authority is trusted", async (scope) => {
    const { port, authority } = await startSecure(scope, null);
    const resolve = resolveTo("127.0.0.1");
    const strict = await startRig(scope, { resolve });
    const unproven = await strict.fail("/?secret", `https://portal.test:${port}`);
    expectRefused(unproven, "DOWNLOAD_FAILED", /CERT|CERTIFICATE|SIGNATURE/u);
    const trusting = await startRig(scope, { resolve, authorities: [authority] });
    const fetched = await trusting.fetch("/", `https://portal.test:${port}`);
    expect(fetched).toMatchObject({ bytes: 1 });
    const misnamed = await trusting.fail("/", `https://other.test:${port}`);
    expectRefused(misnamed, "DOWNLOAD_FAILED", /ERR_TLS_CERT_ALTNAME_INVALID/u);
  });

  test("a redirect to http: is refused, even to one of the site's hosts", async (scope) => {
    const plain = await startPortal(scope, (_request, response) => response.end("x"));
    const { port, authority } = await startSecure(scope, `http://plain.test:${plain.port}/?secret`);
    const { fail } = await startRig(scope, {
      resolve: resolveTo("127.0.0.1"),
      authorities: [authority],
    });
    const hosts = [`plain.test:${plain.port}`];
    const error = await fail("/", { origin: `https://portal.test:${port}`, hosts });
    expectRefused(error, "FORBIDDEN_URL", /from https: to http:/u);
    expect(plain.connections()).toBe(0);
  });
});
