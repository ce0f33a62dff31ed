/** Watches `sluice work`: health pages from a separate thread, which also renews its leases. */
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { ProbeServer, type ProbePage } from "../../health-thread/probe-server.ts";
import type { WorkerHealth } from "../../runtime/health/worker-health.ts";
import { DEFAULT_SETTINGS } from "../../runtime/system/settings.ts";
import type { Config } from "../config/config.ts";
import type { LogFormat } from "../output/log-format.ts";
import type { ProgressDisplay } from "../render/progress-display.ts";
import { isSupervised } from "./supervised.ts";

export interface WorkProbesParts {
  readonly config: Config;
  readonly health: WorkerHealth;
  readonly clock: Clock;
  readonly display: ProgressDisplay;
  readonly env: NodeJS.ProcessEnv;
  readonly logFormat: LogFormat;
  /** By path, beside /health and /ready. */
  readonly pages?: Readonly<Record<string, ProbePage>>;
}

/** Time for a slow store to commit the last reports. */
const LAST_WORDS_MS = 10_000;

/**
 * A chosen port must be free. The default one may be used by another worker on the same host: then
 * this one continues without health pages, and logs that.
 */
export async function startProbeServer(parts: WorkProbesParts): Promise<ProbeServer> {
  const { config, health, clock, display, env, logFormat, pages = {} } = parts;
  const { store, busyMs } = config;
  const { drainMs, abortGraceMs } = { ...DEFAULT_SETTINGS, ...config.engine };
  const options = {
    health,
    clock,
    pages,
    limits: config.health.limits,
    log: (entry: Parameters<ProgressDisplay["log"]>[0]) => display.log(entry),
    renewalStore: { store, busyMs },
    ...(isSupervised(env) ? { orphanMs: drainMs + abortGraceMs + LAST_WORDS_MS } : {}),
    // A process without our supervisor may have an external one, which reads the pages.
    endsHung: isSupervised(env) ? logFormat : null,
  };
  if (config.health.port === null) return ProbeServer.start({ ...options, listening: null });
  const port = computePort(config.health.port, env);
  try {
    const probeServer = await ProbeServer.start({
      ...options,
      listening: { host: config.health.host, port },
    });
    if (config.health.isPortChosen) {
      display.note(`health at http://${nameHost(config.health.host)}:${probeServer.port}/health`);
    }
    return probeServer;
  } catch (error) {
    if (config.health.isPortChosen || !(error instanceof SluiceError)) throw error;
    const message = `${error.message}; this worker has no health pages. ${error.hint ?? ""}`;
    display.log({ level: "warn", event: "health.port_taken", message });
    return ProbeServer.start({ ...options, listening: null });
  }
}

/** Each of several supervised processes has its own port, counted from the given one. */
function computePort(port: number, env: NodeJS.ProcessEnv): number {
  const process = Number(env["SLUICE_PROCESS"] ?? "1");
  return port === 0 || !Number.isInteger(process) || process < 1 ? port : port + process - 1;
}

/** As it stands in a URL. */
function nameHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
