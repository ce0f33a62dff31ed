/**
 * Starts a thread that watches a worker: it answers health probes over HTTP while the worker's loop
 * is busy or hangs, and renews its leases for as long as the loop may still turn.
 */
import { Worker } from "node:worker_threads";
import { describeError, SluiceError } from "../core/base/errors.ts";
import type { HealthLimits } from "../core/fleet/health.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { WorkerHealth } from "../runtime/health/worker-health.ts";
import type { Log } from "../runtime/system/log.ts";
import type {
  FromThread,
  RenewalStore,
  Listening,
  ToThread,
  ProbeServerOrders,
} from "./probe-server-messages.ts";

/** A page whose text the main thread makes on request. */
export interface ProbePage {
  readonly contentType: string;
  read(): Promise<string>;
}

export interface ProbeServerOptions {
  readonly health: WorkerHealth;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: HealthLimits;
  /** Null: it only renews leases. */
  readonly listening: Listening | null;
  /** Null: a store in memory, which no other thread can open. */
  readonly renewalStore: RenewalStore | null;
  /** For a process that must not outlive its supervisor: how long it then has to end by itself. */
  readonly orphanMs?: number;
  /**
   * Kills the process when its loop hangs, so that its supervisor starts another; the log format.
   */
  readonly endsHung?: "text" | "json" | null;
  /** By path, next to /health and /ready. */
  readonly pages?: Readonly<Record<string, ProbePage>>;
}

/** Works for the sources under test and for the compiled files. */
const ENTRY = new URL(
  import.meta.url.endsWith(".ts") ? "./probe-server-thread.ts" : "./probe-server-thread.js",
  import.meta.url,
);
/** Then the thread is terminated. */
const CLOSE_MS = 5_000;

export class ProbeServer {
  readonly #thread: Worker;
  readonly #options: ProbeServerOptions;
  readonly #ready = Promise.withResolvers<number | null>();
  readonly #exited: Promise<void>;
  #port: number | null = null;
  #isClosing = false;

  private constructor(thread: Worker, options: ProbeServerOptions) {
    this.#thread = thread;
    this.#options = options;
    this.#exited = new Promise((resolve) => {
      thread.once("exit", () => resolve());
    });
    thread.on("message", (message: FromThread) => this.#hear(message));
    thread.on("error", (error) => this.#fail(error));
    options.health.onServed((served) => this.#say({ kind: "served", served }));
  }

  /** Resolves when it listens; throws HEALTH_PORT if it cannot. */
  static async start(options: ProbeServerOptions): Promise<ProbeServer> {
    const {
      health,
      limits,
      listening,
      renewalStore,
      orphanMs,
      endsHung = null,
      pages = {},
    } = options;
    const orders: ProbeServerOrders = {
      pulse: health.pulse.buffer,
      leases: health.leases.buffer,
      limits,
      listening,
      renewalStore,
      orphanhood: orphanMs === undefined ? null : { parent: process.ppid, graceMs: orphanMs },
      endsHung,
      pages: Object.fromEntries(
        Object.entries(pages).map(([path, { contentType }]) => [path, contentType]),
      ),
    };
    const thread = new Worker(ENTRY, {
      workerData: orders,
      name: "sluice-probes",
      // Node 22 would warn about its SQLite again.
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    const probeServer = new ProbeServer(thread, options);
    try {
      probeServer.#port = await probeServer.#ready.promise;
      // It does not keep the process alive.
      thread.unref();
      return probeServer;
    } catch (error) {
      probeServer.#isClosing = true;
      await thread.terminate();
      throw error;
    }
  }

  /** The port that it listens at; null for none. */
  get port(): number | null {
    return this.#port;
  }

  async close(): Promise<void> {
    if (!this.#isClosing) this.#say({ kind: "close" });
    this.#isClosing = true;
    const ended = new AbortController();
    void this.#exited.then(() => ended.abort());
    this.#thread.ref();
    await sleep(this.#options.clock, CLOSE_MS, ended.signal);
    await this.#thread.terminate();
  }

  #say(message: ToThread): void {
    this.#thread.postMessage(message, []);
  }

  #hear(message: FromThread): void {
    if (message.kind === "log") this.#options.log(message.entry);
    else if (message.kind === "ask") void this.#makePage(message.path);
    else if (message.kind === "ready") this.#ready.resolve(message.port);
    else this.#fail(this.#describeRefusal(message));
  }

  #describeRefusal({ code, message }: Extract<FromThread, { kind: "refused" }>): SluiceError {
    const { host, port } = this.#options.listening ?? { host: "nowhere", port: 0 };
    const why = code === "EADDRINUSE" ? "another program uses it" : message;
    return new SluiceError("HEALTH_PORT", `the health port ${host}:${port} is not open: ${why}`, {
      hint: "Choose another port with --health-port or SLUICE_HEALTH_PORT, or `off` for none.",
    });
  }

  /** The text of a page; null when it could not be made. */
  async #makePage(path: string): Promise<void> {
    const { pages = {}, log } = this.#options;
    try {
      this.#say({ kind: "page", path, text: (await pages[path]?.read()) ?? null });
    } catch (error) {
      const { message } = describeError(error);
      log({ level: "warn", event: "health.page_failed", message: `${path}: ${message}`, error });
      this.#say({ kind: "page", path, text: null });
    }
  }

  /**
   * After the start, the worker continues without it: a supervisor that gets no answer about its
   * health acts on that.
   */
  #fail(error: unknown): void {
    this.#ready.reject(error);
    if (this.#isClosing || this.#port === null) return;
    const { message } = describeError(error);
    this.#options.log({ level: "error", event: "health.failed", message, error });
  }
}
