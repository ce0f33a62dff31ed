/**
 * For tests of downloads: servers on loopback that misbehave on request, and a fetcher for them.
 */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import {
  createServer as createRawServer,
  type AddressInfo,
  type Server,
  type Socket,
} from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeAddressGuard, type ResolveName } from "./address-guard.ts";
import type { SiteOrigins } from "./allowed-url.ts";
import { type FetchedDocument, type FetchLimits, makeFetcher } from "./fetch-document.ts";

/** For one test: everything it started ends with it. */
export interface TestScope {
  readonly onTestFinished: (end: () => Promise<void>) => void;
}

export interface Portal {
  readonly origin: string;
  readonly port: number;
  /** The requested paths, queries included; empty for a raw server. */
  readonly asked: readonly string[];
  /** Number of connections since the start. */
  readonly connections: () => number;
  /** Resolves when no connection is open any more. */
  readonly whenIdle: () => Promise<void>;
}

export function startPortal(scope: TestScope, answer: RequestListener): Promise<Portal> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    answer(request, response);
  });
  return listen(scope, server, asked, { host: "127.0.0.1", port: 0 });
}

/** A raw server for bytes that Node's server would not send. */
export function startRawPortal(
  scope: TestScope,
  onSocket: (socket: Socket) => void,
  place: { readonly host?: string; readonly port?: number } = {},
): Promise<Portal> {
  const server = createRawServer((socket) => {
    socket.on("error", () => undefined);
    onSocket(socket);
    // A socket that is not read does not notice that the other side has gone.
    socket.resume();
  });
  return listen(scope, server, [], { host: "127.0.0.1", port: 0, ...place });
}

export async function listen(
  { onTestFinished }: TestScope,
  server: Server | HttpServer,
  asked: readonly string[],
  place: { readonly host: string; readonly port: number },
): Promise<Portal> {
  const open = new Set<Socket>();
  let made = 0;
  server.on("connection", (socket: Socket) => {
    made++;
    open.add(socket);
    socket.once("close", () => {
      open.delete(socket);
      server.emit("idle");
    });
  });
  server.listen(place);
  await once(server, "listening");
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  const whenIdle = async (): Promise<void> => {
    while (open.size > 0) await once(server, "idle");
  };
  return {
    origin: `http://${place.host}:${port}`,
    port,
    asked,
    connections: () => made,
    whenIdle,
  };
}

/** Returns the same address for every name. */
export function resolveTo(...addresses: readonly string[]): ResolveName {
  return (_hostname, _options, callback) => {
    queueMicrotask(() =>
      callback(
        null,
        addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
      ),
    );
  };
}

export const LIMITS: FetchLimits = {
  bytesMax: 1_000,
  connectMs: 20_000,
  headersMs: 20_000,
  idleMs: 20_000,
  totalMs: 20_000,
  redirectsMax: 3,
};

export interface RigOptions {
  readonly limits?: Partial<FetchLimits>;
  readonly allowPrivate?: readonly string[];
  readonly resolve?: ResolveName;
  readonly connectionsMax?: number;
  readonly authorities?: readonly string[];
}

export interface Rig {
  readonly target: string;
  readonly hasTarget: () => boolean;
  readonly fetch: (
    url: string,
    site: SiteOrigins | string,
    signal?: AbortSignal,
    target?: string,
  ) => Promise<FetchedDocument>;
  /** The error of the fetch; fails if there was none. */
  readonly fail: (...args: Parameters<Rig["fetch"]>) => Promise<unknown>;
}

export async function startRig(scope: TestScope, options: RigOptions = {}): Promise<Rig> {
  const { limits, allowPrivate = ["127.0.0.0/8"], resolve, ...rest } = options;
  const folder = await mkdtemp(join(tmpdir(), "sluice-download-"));
  const guard = makeAddressGuard(allowPrivate, resolve);
  const fetcher = makeFetcher({ limits: { ...LIMITS, ...limits }, guard, ...rest });
  scope.onTestFinished(async () => {
    await fetcher.close();
    await rm(folder, { recursive: true });
  });
  const file = join(folder, "document");
  const fetch: Rig["fetch"] = (
    url,
    site,
    signal = new AbortController().signal,
    target = file,
  ): Promise<FetchedDocument> =>
    fetcher.fetch(url, typeof site === "string" ? { origin: site, hosts: [] } : site, target, {
      signal,
    });
  const fail: Rig["fail"] = async (...args) => {
    const [settled] = await Promise.allSettled([fetch(...args)]);
    if (settled.status === "rejected") return settled.reason as unknown;
    throw new Error("the download was expected to fail");
  };
  return { target: file, hasTarget: () => existsSync(file), fetch, fail };
}
