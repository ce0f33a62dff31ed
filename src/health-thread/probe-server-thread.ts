/**
 * The thread that answers health probes, renews the worker's leases while its loop is busy, and
 * ends the worker if it hangs or would outlive its supervisor. It shares two pages of memory with
 * the loop and never waits for it: see probe-server.ts, which starts it.
 */
import { writeSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { describeError } from "../core/base/errors.ts";
import { computeBeatAgeMs } from "../core/fleet/health.ts";
import { invariant } from "../core/base/invariant.ts";
import { LeaseRenewalThread } from "../runtime/health/lease-renewal-thread.ts";
import { SharedLeases } from "../runtime/health/shared-leases.ts";
import { SharedHealth } from "../runtime/health/shared-health.ts";
import { systemClock } from "../runtime/system/system-clock.ts";
import { systemRandom } from "../runtime/system/system-random.ts";
import {
  answerBadQuery,
  answerHealth,
  answerNothingYet,
  answerOtherMethod,
  answerText,
  answerUnknown,
  HEALTH_PATHS,
  type PageAnswer,
} from "./health-pages.ts";
import { readScalingQuery, retargetPage, SCALING_PATH } from "./scaling-page.ts";
import { watchForOrphan } from "./orphan-watch.ts";
import { EventLoopMonitor } from "./event-loop-monitor.ts";
import { PageCache } from "./page-cache.ts";
import type {
  FromThread,
  RenewalStore,
  Listening,
  ToThread,
  ProbeServerOrders,
} from "./probe-server-messages.ts";

/** Probes are few, quick and near. */
const CONNECTIONS_MAX = 100;
const REQUEST_MS = 5_000;
/** Node checks for slow requests at this interval; its default is half a minute. */
const REQUEST_LOOK_MS = 1_000;
const STANDARD_ERROR = 2;
/** Two heartbeats of the main loop. */
const BUSY_AFTER_MS = 500;

const orders = workerData as ProbeServerOrders;
const port = parentPort;
invariant(port !== null, "it is started as a thread");
const send = (message: FromThread): void => port.postMessage(message, []);
const pulse = new SharedHealth(orders.pulse);
const leases = new SharedLeases(orders.leases);
const pageCache = new PageCache({
  clock: systemClock,
  paths: orders.listening === null ? [] : Object.keys(orders.pages),
  ask: (path) => send({ kind: "ask", path }),
  isBusy: () => computeBeatAgeMs(pulse.read(), systemClock.monotonicMs()) > BUSY_AFTER_MS,
});
const leaveOrphan =
  orders.orphanhood === null ? null : watchForOrphan(orders.orphanhood, systemClock);
const keeper = orders.renewalStore === null ? null : startKeeper(orders.renewalStore);

function startKeeper(kept: RenewalStore): LeaseRenewalThread {
  return new LeaseRenewalThread({
    pulse,
    leases,
    clock: systemClock,
    limits: orders.limits,
    log: ({ level, event, message }) => send({ kind: "log", entry: { level, event, message } }),
    // Loaded here, so that pages are served before the store is open.
    openStore: async () => {
      const { openStore } = await import("../stores/open-store.ts");
      const { store, busyMs } = kept;
      return openStore(store, {
        clock: systemClock,
        random: systemRandom,
        // A renewal need not survive a power cut, after which all leases have expired anyway; and
        // health probes must not wait for a disk.
        synchronous: "normal",
        busyMs,
        connectionsMax: 1,
        mustExist: true,
      });
    },
  });
}

const monitor =
  orders.endsHung === null
    ? null
    : new EventLoopMonitor({
        clock: systemClock,
        limits: orders.limits,
        readPulse: () => pulse.read(),
        onHung: endProcess,
      });

/** The loop that would print it hangs, and would react to no other signal. */
function endProcess(reason: string): void {
  const message = `${reason}: this process is killed`;
  const entry = { level: "error", event: "loop.hung", message };
  const time = new Date(systemClock.wallMs()).toISOString();
  const isJson = orders.endsHung === "json";
  const line = isJson ? JSON.stringify({ time, ...entry }) : `error: ${message}`;
  try {
    writeSync(STANDARD_ERROR, `${line}\n`);
  } finally {
    process.kill(process.pid, "SIGKILL");
  }
}

async function answer(request: IncomingMessage): Promise<PageAnswer> {
  if (request.method !== "GET" && request.method !== "HEAD") return answerOtherMethod();
  const url = request.url ?? "/";
  const [path = "/"] = url.split("?", 1);
  const health = answerHealth(path, {
    healthSample: pulse.read(),
    now: systemClock.monotonicMs(),
    limits: orders.limits,
    leases: leases.count(),
    renewals: pulse.readCount("renewals"),
  });
  if (health !== null) return health;
  const contentType = Object.hasOwn(orders.pages, path) ? orders.pages[path] : undefined;
  if (contentType === undefined) {
    return answerUnknown([...HEALTH_PATHS, ...Object.keys(orders.pages)]);
  }
  const query = path === SCALING_PATH ? readScalingQuery(url.slice(path.length)) : { target: null };
  if ("error" in query) return answerBadQuery(query);
  const found = await pageCache.read(path);
  if (found === null) return answerNothingYet(path);
  const { target } = query;
  const text = target === null ? found.text : retargetPage(found.text, target);
  return answerText(contentType, text, found.ageMs);
}

async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, headers, body } = await answer(request);
  response.writeHead(status, {
    ...headers,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

function listen(where: Listening): Server {
  const times = { requestTimeout: REQUEST_MS, connectionsCheckingInterval: REQUEST_LOOK_MS };
  const server = createServer(times, (request, response) => {
    respond(request, response).catch((error: unknown) => {
      const { message } = describeError(error);
      send({ kind: "log", entry: { level: "warn", event: "health.page_failed", message } });
      response.destroy();
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on("error", (error: NodeJS.ErrnoException) => {
    send({ kind: "refused", code: error.code ?? "UNEXPECTED", message: error.message });
  });
  server.listen(where.port, where.host, () => {
    send({ kind: "ready", port: (server.address() as AddressInfo).port });
  });
  return server;
}

const server = orders.listening === null ? null : listen(orders.listening);
if (server === null) send({ kind: "ready", port: null });

port.on("message", (message: ToThread) => {
  if (message.kind === "served") keeper?.noteServed(message.served);
  else if (message.kind === "page") pageCache.put(message.path, message.text);
  else void close();
});

/** With nothing left to do the thread ends by itself. */
async function close(): Promise<void> {
  leaveOrphan?.();
  monitor?.stop();
  server?.close();
  server?.closeAllConnections();
  await keeper?.stop();
  port?.close();
}
