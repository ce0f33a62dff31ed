/**
 * A database of its own on a PostgreSQL server, with several stores on it, each behind a gate. It is
 * used for any number of seeds, which find its tables empty.
 */
import pg from "pg";
import type { Host } from "../../src/adapters/sql/host.ts";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { emptySchema } from "../../test/support/empty-schema.ts";
import { findBrokenLeases } from "../../test/support/lease-rows.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { SetClock } from "../shadow-store.ts";
import { Gate } from "./gate.ts";
import { findBrokenRules } from "./tables.ts";
import { type Line, PausingClock } from "./schedule.ts";

/** The same for all: names of locks contain it, and their order depends on it. */
const SCHEMA = "interleaved";
const LINES = ["A", "B", "C", "D"] as const;
/** A deadlock is a failure; it need not be waited for. */
const DEADLOCK_MS = 20;

/** No process ever counts as dead: leases expire by the clock. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };

let made = 0;

function nameDatabase(pid: number, nth: number): string {
  return `interleaved_${pid}_${nth}`;
}

/** Removes the first ground of a process that has died. */
export async function dropGround(server: string, pid: number): Promise<void> {
  await ask(server, `DROP DATABASE IF EXISTS ${nameDatabase(pid, 1)} WITH (FORCE)`);
}

export class Ground {
  readonly time: SetClock;
  readonly lines: readonly Line[];
  /** Sees who waits for whom. */
  readonly monitor: pg.Client;
  /** A store without a gate, to see what all of them hold. */
  readonly observer: Store;
  readonly #server: string;
  readonly #database: string;
  readonly #address: string;

  private constructor(
    place: { readonly server: string; readonly database: string; readonly address: string },
    time: SetClock,
    lines: readonly Line[],
    observer: Store,
    monitor: pg.Client,
  ) {
    this.#server = place.server;
    this.#database = place.database;
    this.#address = place.address;
    this.time = time;
    this.lines = lines;
    this.observer = observer;
    this.monitor = monitor;
  }

  static async open(server: string): Promise<Ground> {
    const database = nameDatabase(process.pid, ++made);
    await ask(server, `CREATE DATABASE ${database}`);
    await ask(server, `ALTER DATABASE ${database} SET deadlock_timeout = '${DEADLOCK_MS}ms'`);
    const url = new URL(server);
    url.pathname = `/${database}`;
    const address = url.href;
    const time = new SetClock();
    const observer = await open(address, new PausingClock(time), time);
    const lines: Line[] = [];
    for (const name of LINES) {
      const gate = await Gate.start(address);
      const clock = new PausingClock(time);
      const store = await open(gate.address, clock, time);
      lines.push({ name, store, gate, clock });
    }
    const monitor = new pg.Client(address);
    await monitor.connect();
    return new Ground({ server, database, address }, time, lines, observer, monitor);
  }

  async empty(): Promise<void> {
    await emptySchema(this.monitor, SCHEMA);
    this.time.set(Date.UTC(2026, 0, 1), 1_000_000);
    for (const { clock } of this.lines) clock.forget();
  }

  /** What must hold for the rows of its tables. */
  async findBroken(): Promise<string[]> {
    return findBrokenRules(this.monitor, SCHEMA);
  }

  /** The same for leases, at the end of a seed: it takes a connection of its own. */
  async findBrokenLeases(): Promise<string[]> {
    return findBrokenLeases(this.#address, SCHEMA);
  }

  async close(): Promise<void> {
    for (const { store, gate } of this.lines) {
      gate.open();
      await store.close();
      await gate.stop();
    }
    await this.observer.close();
    await this.monitor.end();
    await ask(this.#server, `DROP DATABASE ${this.#database} WITH (FORCE)`);
  }
}

async function open(address: string, clock: PausingClock, time: SetClock): Promise<Store> {
  const url = new URL(address);
  url.searchParams.set("schema", SCHEMA);
  const random = new SeededRandom();
  const options = { clock, random, time, host: HOST, connectionsMax: 1 };
  const store = await openPostgresStore(url.href, options);
  // From now on its connection has asked what it asks once.
  // Its one notification is now waiting for a timer that never fires.
  await store.pause({ scope: "lane", name: url.port, mode: "drain", by: "ann", why: null });
  return store;
}

async function ask(server: string, text: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
