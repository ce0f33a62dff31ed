/**
 * A real PostgreSQL server for tests, on a free port of the loopback and in a temporary folder. It
 * accepts every user of this host. It is deleted with its data when it is stopped or when the
 * process that started it has died. With SLUICE_TEST_POSTGRES the tests use the server at that
 * address instead; SLUICE_TEST_POSTGRES_BIN names the programs to use.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFile, chown, mkdtemp, open, readFile, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { findFreePort } from "./free-port.ts";
import { chooseUser, findPrograms, type RunsAs } from "./postgres-programs.ts";

export interface PostgresServer {
  /** postgres://user@host:port/database */
  readonly address: string;
  /** The id of its first process; null for a server that the tests did not start. */
  readonly pid: number | null;
  stop(): Promise<void>;
}

/** A server for one test alone, which may do anything with it. */
export interface OwnPostgresServer extends PostgresServer {
  /**
   * Stops it and starts it again with the same data on the same port; resolves when it accepts
   * connections. `immediate` is like a crash: nothing is written out, and it recovers from its log.
   */
  restart(mode: StopMode, whileDown?: () => void | Promise<void>): Promise<void>;
  /** A standby that follows every change and is read-only until it is promoted. */
  startStandby(): Promise<PostgresServer>;
}

export type StopMode = "fast" | "immediate";

export interface PostgresServerOptions {
  /** Commits survive the loss of the server's host. Default false: tests are faster without. */
  readonly durable?: boolean;
  /** Networks, such as 10.1.2.0/24, from which it accepts every user too. */
  readonly networks?: readonly string[];
  /** More settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
}

const STOP_SIGNALS = { fast: "SIGINT", immediate: "SIGQUIT" } as const;
const USER = "postgres";
/** After a crash the server syncs all of its files first, which takes long on a busy disk. */
const START_MS = 120_000;
const LOOK_EVERY_MS = 10;
/** Another process may take a free port before the server does. */
const STARTS_MAX = 3;

const SETTINGS = {
  listen_addresses: "127.0.0.1",
  max_connections: "200",
  // The server does not log the errors that tests provoke.
  log_min_messages: "log",
  log_checkpoints: "off",
};
const FORGETFUL = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

export async function startPostgres(options: PostgresServerOptions = {}): Promise<PostgresServer> {
  const given = process.env["SLUICE_TEST_POSTGRES"];
  if (given !== undefined && given !== "") {
    return { address: given, pid: null, stop: () => Promise.resolve() };
  }
  return startOwnPostgres(options);
}

/** Even if a server was given to the tests: that one must not be disturbed. */
export async function startOwnPostgres(
  options: PostgresServerOptions = {},
): Promise<OwnPostgresServer> {
  const user = chooseUser();
  const folder = await makeFolder(user);
  const watchdog = startWatchdog(folder);
  try {
    const bin = await findPrograms(folder, user);
    initialize(bin, folder, user);
    await letIn(folder, options.networks ?? []);
    const how = { bin, folder, user, options };
    const started = await start(how);
    const { port } = started;
    let { server } = started;
    const restart: OwnPostgresServer["restart"] = async (mode, whileDown) => {
      await end(server, STOP_SIGNALS[mode]);
      await whileDown?.();
      server = await launch(how, port);
      const problem = await waitUntilReady(server, folder);
      if (problem !== null) throw new Error(`PostgreSQL does not restart: ${problem}`);
    };
    return {
      address: composeAddress(port),
      get pid() {
        return server.pid ?? null;
      },
      restart,
      startStandby: () => startStandby(how, port, (copy) => restart("fast", copy)),
      stop: async () => {
        await end(server);
        await end(watchdog);
      },
    };
  } catch (error) {
    await end(watchdog);
    throw error;
  }
}

function composeAddress(port: number): string {
  return `postgres://${USER}@127.0.0.1:${port}/postgres`;
}

/** Its data is copied while the first one is down. */
async function startStandby(
  primary: Start,
  port: number,
  whileDown: (copy: () => Promise<void>) => Promise<void>,
): Promise<PostgresServer> {
  const { user, bin } = primary;
  const folder = await makeFolder(user);
  const watchdog = startWatchdog(folder);
  const data = join(folder, "data");
  await whileDown(async () => {
    const copy = ["-a", join(primary.folder, "data"), data];
    const { status, stderr } = spawnSync("cp", copy, { ...user, encoding: "utf8" });
    if (status !== 0) throw new Error(`the data could not be copied: ${stderr}`);
    await writeFile(join(data, "standby.signal"), "");
  });
  const settings = { primary_conninfo: `host=127.0.0.1 port=${port} user=${USER}` };
  const started = await start({ bin, folder, user, options: { ...primary.options, settings } });
  return {
    address: composeAddress(started.port),
    pid: started.server.pid ?? null,
    stop: async () => {
      await end(started.server);
      await end(watchdog);
    },
  };
}

async function makeFolder({ uid, gid }: RunsAs): Promise<string> {
  // Short: the path of a socket in it has a length limit.
  const folder = await mkdtemp(join(await realpath(tmpdir()), "sluice-pg-"));
  if (uid !== undefined && gid !== undefined) await chown(folder, uid, gid);
  return folder;
}

/** First of all, so that nothing is left behind whenever this process dies. */
function startWatchdog(folder: string): ChildProcess {
  const program = fileURLToPath(new URL("postgres-watchdog.ts", import.meta.url));
  // In its own process group: Ctrl-C at the terminal must not interrupt it.
  return spawn(process.execPath, [program, folder], {
    stdio: ["pipe", "ignore", "inherit"],
    detached: true,
  });
}

function initialize(bin: string, folder: string, user: RunsAs): void {
  const args = ["-D", join(folder, "data"), "-U", USER, "-A", "trust", "-E", "UTF8"];
  const { status, error, stderr } = spawnSync(
    join(bin, "initdb"),
    [...args, "--locale=C", "--no-sync", "--no-instructions"],
    { ...user, cwd: folder, encoding: "utf8" },
  );
  if (status === 0) return;
  throw new Error(`initdb of ${bin} failed: ${error?.message ?? stderr.trim()}`);
}

async function letIn(folder: string, networks: readonly string[]): Promise<void> {
  const lines = networks.map((network) => `host all all ${network} trust\n`);
  await appendFile(join(folder, "data", "pg_hba.conf"), lines.join(""));
}

interface Start {
  readonly bin: string;
  readonly folder: string;
  readonly user: RunsAs;
  readonly options: PostgresServerOptions;
}

async function start(
  how: Start,
): Promise<{ readonly server: ChildProcess; readonly port: number }> {
  for (let starts = 1; ; starts++) {
    const port = await findFreePort();
    const server = await launch(how, port);
    const problem = await waitUntilReady(server, how.folder);
    if (problem === null) return { server, port };
    await end(server);
    if (starts === STARTS_MAX) throw new Error(`PostgreSQL does not start: ${problem}`);
  }
}

async function launch({ bin, folder, user, options }: Start, port: number): Promise<ChildProcess> {
  const settings = {
    ...SETTINGS,
    ...(options.durable === true ? {} : FORGETFUL),
    unix_socket_directories: folder,
    port: String(port),
    ...options.settings,
  };
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const log = await open(join(folder, "server.log"), "a");
  try {
    return spawn(join(bin, "postgres"), ["-D", join(folder, "data"), ...args], {
      ...user,
      cwd: folder,
      stdio: ["ignore", log.fd, log.fd],
      detached: true,
    });
  } finally {
    await log.close();
  }
}

/** Null when it accepts connections; else its answer. */
async function waitUntilReady(server: ChildProcess, folder: string): Promise<string | null> {
  let failure: string | null = null;
  server.once("error", (error) => {
    failure = error.message;
  });
  for (let waitedMs = 0; waitedMs < START_MS; waitedMs += LOOK_EVERY_MS) {
    if (failure !== null) return failure;
    if (hasEnded(server)) return readFile(join(folder, "server.log"), "utf8");
    const state = await readFile(join(folder, "data", "postmaster.pid"), "utf8").catch(() => "");
    // A server that was killed leaves its file behind.
    if (/^(ready|standby)\b/m.test(state) && state.startsWith(`${server.pid}\n`)) return null;
    await setTimeout(LOOK_EVERY_MS);
  }
  return `it is not ready after ${START_MS} ms`;
}

function hasEnded({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null || pid === undefined;
}

/** The server at once, with its clients; the watchdog by the end of its input. */
async function end(child: ChildProcess, signal: NodeJS.Signals = "SIGINT"): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  if (child.stdin === null) child.kill(signal);
  else child.stdin.end();
  await ended;
}
