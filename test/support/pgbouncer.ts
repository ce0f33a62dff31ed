/**
 * A real PgBouncer in transaction mode in front of a server: each transaction may use another
 * connection.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { findFreePort } from "./free-port.ts";
import { installProgram } from "./installed-program.ts";
import { chooseUser } from "./postgres-programs.ts";

const START_MS = 20_000;
const LOOK_EVERY_MS = 20;

export interface PgBouncer {
  readonly address: string;
  stop(): Promise<void>;
}

/** All clients share this number of connections to the server. */
export async function startPgBouncer(server: string, connections: number): Promise<PgBouncer> {
  installProgram("pgbouncer", "pgbouncer");
  const { hostname, port, username } = new URL(server);
  const folder = await mkdtemp(join(tmpdir(), "sluice-bouncer-"));
  const user = chooseUser();
  const own = await findFreePort();
  const users = join(folder, "users.txt");
  const config = join(folder, "pgbouncer.ini");
  await writeFile(users, `"${username}" ""\n`);
  await writeFile(
    config,
    [
      "[databases]",
      `* = host=${hostname} port=${port}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${own}`,
      "unix_socket_dir =",
      "auth_type = trust",
      `auth_file = ${users}`,
      "pool_mode = transaction",
      `default_pool_size = ${connections}`,
      "max_client_conn = 100",
      "",
    ].join("\n"),
  );
  const { uid, gid } = user;
  if (uid !== undefined && gid !== undefined) {
    for (const path of [folder, users, config]) await chown(path, uid, gid);
  }
  const bouncer = spawn("pgbouncer", ["-q", config], { ...user, stdio: "ignore", cwd: folder });
  const address = new URL(server);
  address.port = String(own);
  await waitUntilReady(bouncer, address.href);
  return {
    address: address.href,
    stop: async () => {
      if (bouncer.exitCode === null) {
        const ended = once(bouncer, "exit");
        bouncer.kill("SIGKILL");
        await ended;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function waitUntilReady(bouncer: ChildProcess, address: string): Promise<void> {
  const giveUpAt = Date.now() + START_MS;
  for (;;) {
    const client = new pg.Client(address);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (bouncer.exitCode !== null || Date.now() > giveUpAt) throw error;
    }
    await setTimeout(LOOK_EVERY_MS);
  }
}
