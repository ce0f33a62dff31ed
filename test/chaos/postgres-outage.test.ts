/**
 * A server that is down, full, silent, read-only or busy: every call says so in time and as a
 * temporary error, and everything works again as soon as the server does.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { openAt, openRaw, type Place } from "../conformance/postgres-rig.ts";
import { Rig, say, SWEEP_POLICY } from "../conformance/rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { BehindProxy } from "./behind-proxy.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type OwnPostgresServer, startOwnPostgres } from "../support/postgres-server.ts";
import { WAIT_MS } from "./onlooker.ts";

const HELD = fileURLToPath(new URL("../support/held-transaction.ts", import.meta.url));
/** Five seconds of silence, and what a busy machine adds. */
const LOCKS_MAX_MS = 9_000;

let place: Place;
let proxy: CuttingProxy;
let behind: BehindProxy;
beforeEach(async () => {
  behind = await BehindProxy.start();
  ({ place, proxy } = behind);
});

interface Own {
  readonly server: OwnPostgresServer;
  readonly rig: Rig;
  /** A connection of the server's operator. */
  readonly raw: pg.Client;
}

/** A store on its own server, which the test may change. */
async function openOwn(settings: Readonly<Record<string, string>> = {}): Promise<Own> {
  const server = await startOwnPostgres({ settings });
  onTestFinished(() => server.stop());
  const clock = new ManualClock();
  const store = await openAt(server.address, clock);
  onTestFinished(() => store.close());
  const rig = new Rig(store, clock, await store.registerWorker({ name: "worker" }));
  return { server, rig, raw: await connect(server.address) };
}

async function connect(address: string): Promise<pg.Client> {
  const client = new pg.Client(address);
  client.on("error", () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return client;
}

/** Every session reads a changed setting at its next statement. */
async function setForAll(raw: pg.Client, name: string, value: "on" | "off"): Promise<void> {
  await raw.query("SET default_transaction_read_only = off");
  await raw.query(`ALTER SYSTEM SET ${name} = ${value}`);
  await raw.query("SELECT pg_reload_conf()");
  const other = await connect(
    raw.host === undefined ? "" : `postgres://${raw.user}@${raw.host}:${raw.port}/${raw.database}`,
  );
  await vi.waitFor(async () => {
    const { rows } = await other.query(`SHOW ${name}`);
    expect(rows).toEqual([{ [name]: value }]);
  });
}

async function lockBatch(raw: pg.Client, id: string): Promise<void> {
  await raw.query("SELECT 1 FROM sluice.batch WHERE id = $1 FOR UPDATE", [id]);
}

/** Resolves when a session waits for a lock. */
async function waitUntilBlocked(raw: pg.Client): Promise<void> {
  await vi.waitFor(async () => {
    const { rowCount } = await raw.query(
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    );
    expect(rowCount).toBe(1);
  }, WAIT_MS);
}

/** One call of each kind: reads, changes, and both. */
const CALLS: Readonly<Record<string, (rig: Rig) => Promise<unknown>>> = {
  "a query of a batch": ({ store }) => store.getBatch("none"),
  "a list": ({ store }) => store.listLimits(),
  "a read of records": ({ store }) => store.readRecords(null, 0, 10),
  "a submit": (rig) => rig.submit(),
  "a look for work": (rig) => rig.look(),
  "a claim": ({ store, worker }) => store.claim("conduct", worker, 1_000),
  "a sweep": ({ store }) => store.sweep(SWEEP_POLICY),
  "a beat": ({ store, worker }) => store.beat(worker, [], 1_000),
};
const AWAY = { code: "STORE_UNREACHABLE", retryable: true };

async function expectAll(rig: Rig, failure: object): Promise<void> {
  for (const [what, call] of Object.entries(CALLS)) {
    await expect(call(rig), what).rejects.toMatchObject(failure);
  }
}

describe("a server that cannot be reached", () => {
  test("makes every call fail temporarily, both reads and changes", async () => {
    const rig = await behind.open();
    proxy.refuse();
    await expectAll(rig, AWAY);
    proxy.accept();
    for (const call of Object.values(CALLS)) await call(rig);
  });
});

describe("a server that is silent", () => {
  test("delays no call once it answers again, and nothing is done twice", async () => {
    const rig = await behind.open();
    proxy.fallSilent();
    const submitting = rig.submit({ id: "patient" });
    const looking = rig.store.listLimits();
    proxy.speak();
    expect((await submitting).id).toBe("patient");
    await looking;
    expect(await rig.recordTypes("patient")).toEqual(["batch.submitted", "batch.started"]);
  });

  test("is given up within seconds by a client that connects", async () => {
    const rig = await behind.open({ connectionsMax: 8 });
    proxy.fallSilent();
    // Those that are open are in use; this call needs a new one.
    proxy.cut();
    const from = Date.now();
    await expect(rig.store.listLimits()).rejects.toMatchObject(AWAY);
    expect(Date.now() - from).toBeLessThan(20_000);
    proxy.speak();
    await rig.store.listLimits();
  });
});

describe("a read-only server, such as a standby", () => {
  test("refuses changes temporarily, answers reads, and accepts changes as soon as it can", async () => {
    const { rig, raw } = await openOwn();
    const id = await rig.running([1]);
    await setForAll(raw, "default_transaction_read_only", "on");
    const refused = { code: "STORE_READ_ONLY", retryable: true };
    await expect(rig.submit()).rejects.toMatchObject(refused);
    await expect(rig.cancel(id)).rejects.toMatchObject(refused);
    expect(await rig.state(id)).toBe("running");
    await setForAll(raw, "default_transaction_read_only", "off");
    expect((await rig.cancel(id)).kind).toBe("done");
  });
});

describe("too few connections", () => {
  test("of a process: calls wait for their turn, and fail temporarily after a time limit", async () => {
    const clock = new ManualClock();
    const store = await openAt(place.address, clock, { connectionsMax: 1 });
    onTestFinished(() => store.close());
    const rig = new Rig(store, clock, await store.registerWorker({ name: "worker" }));
    const { id } = await rig.submit();
    const raw = await openRaw(place);
    await raw.query("BEGIN");
    await raw.query("SELECT 1 FROM batch FOR UPDATE");
    const cancelling = rig.cancel(id);
    await expect(store.listLimits()).rejects.toMatchObject(AWAY);
    const turns = [store.getBatch(id), store.listLimits()];
    await raw.query("ROLLBACK");
    expect((await cancelling).kind).toBe("done");
    await Promise.all(turns);
  });

  test("of a server: calls fail temporarily, and succeed when there is a connection", async () => {
    const { server, rig } = await openOwn({ max_connections: "10" });
    const others: pg.Client[] = [];
    await expect(async () => {
      for (;;) others.push(await connect(server.address));
    }).rejects.toThrow("too many clients");
    // A call with a connection continues; a call that needs a new one fails.
    const calls = Array.from({ length: 8 }, () => rig.submit());
    const ended = await Promise.allSettled(calls);
    const failures = ended.filter(({ status }) => status === "rejected");
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toMatchObject({ reason: AWAY });
    for (const other of others) await other.end();
    await vi.waitFor(() => rig.submit({ id: "after" }));
  });
});

const STATISTICS = { timeout: 20_000, interval: 200 };

describe("concurrent transactions on the same rows", () => {
  test("repeat the call that a deadlock aborted, once", async () => {
    // This session detects no deadlock itself, so that the other one is aborted.
    const { server, rig, raw } = await openOwn({ deadlock_timeout: "50ms" });
    await raw.query("SET deadlock_timeout = '1h'");
    const ids = [await rig.running([1]), await rig.running([1])];
    const leases = [await rig.leaseOne({ batch: ids[0]! }), await rig.leaseOne({ batch: ids[1]! })];
    await raw.query("BEGIN");
    await lockBatch(raw, ids[1]!);
    // It locks in the order of their numbers; the other one locks in reverse.
    const settling = rig.store.work(
      leases.map((lease) => say(lease, { succeeded: [0] })),
      null,
    );
    await waitUntilBlocked(await connect(server.address));
    await lockBatch(raw, ids[0]!);
    await raw.query("COMMIT");
    expect((await settling).reports).toEqual(["settled", "settled"]);
    for (const id of ids) expect(await rig.recorded(id, "batch.ended")).toHaveLength(1);
    // PostgreSQL publishes what a connection counted a moment after it is idle.
    await vi.waitFor(async () => {
      const { rows } = await raw.query<{ deadlocks: string }>(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
      );
      expect(Number(rows[0]?.deadlocks)).toBe(1);
    }, STATISTICS);
  });

  for (const code of ["40001", "40P01", "55P03"]) {
    test(`repeat a change that fails with ${code} until it succeeds, and count it once`, async () => {
      const { rig, raw } = await openOwn();
      await raw.query(`CREATE SEQUENCE sluice.failures`);
      // A value from a sequence is used up even if its transaction rolls back.
      await raw.query(`CREATE FUNCTION sluice.fail_thrice() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('sluice.failures') <= 3 THEN
            RAISE EXCEPTION 'not now' USING ERRCODE = '${code}';
          END IF;
          RETURN NEW;
        END $$`);
      await raw.query(
        "CREATE TRIGGER failing BEFORE INSERT ON sluice.record FOR EACH ROW EXECUTE FUNCTION sluice.fail_thrice()",
      );
      const { id } = await rig.submit();
      expect(await rig.recorded(id, "batch.submitted")).toHaveLength(1);
      expect((await rig.store.listBatches({ limit: 10 })).length).toBe(1);
    });
  }
});

describe("a process that is stopped inside a transaction", () => {
  test("loses its locks within seconds, and fails without a change when it continues", async () => {
    const rig = await behind.open();
    const { id } = await rig.submit();
    const child = fork(HELD, [place.address, id], { execArgv: [] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const hear = async (): Promise<unknown> => ((await once(child, "message")) as [unknown])[0];
    expect(await hear()).toEqual({ kind: "inside" });
    child.kill("SIGSTOP");
    const from = performance.now();
    expect((await rig.cancel(id)).kind).toBe("done");
    const waitedMs = performance.now() - from;
    console.log(`the locks of a stopped process were free after ${Math.round(waitedMs)} ms`);
    expect(waitedMs).toBeLessThan(LOCKS_MAX_MS);
    const before = await rig.observe(id);
    child.kill("SIGCONT");
    const said = hear();
    child.send("go on");
    expect(await said).toEqual({ kind: "failed", code: "STORE_UNREACHABLE", retryable: true });
    expect(await rig.observe(id)).toEqual(before);
  });
});
