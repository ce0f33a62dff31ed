/**
 * The embedded store: one SQLite file in WAL mode on a local disk, for any number of processes of
 * one host. Calls are synchronous and short; a commit is on disk when it returns (`full`, the
 * default) or with the next checkpoint (`normal`, by explicit choice).
 */
import { hash } from "node:crypto";
import { SluiceError } from "../../core/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { planInline } from "../../ports/plan-inline.ts";
import type { Store } from "../../ports/store.ts";
import { backUp } from "./backup.ts";
import { Claims } from "./claims.ts";
import { Conducting } from "./conducting.ts";
import { Connection, SYNCHRONOUS_MODES, type SynchronousMode } from "./connection.ts";
import { Deliveries } from "./deliveries.ts";
import { prepareFolder } from "./file-system.ts";
import { describeHost, type Host } from "./host.ts";
import { migrate, refuseForeign } from "./migrate.ts";
import { Reading } from "./reading.ts";
import { Recorder } from "./records.ts";
import { type BatchRow, toSnapshot } from "./rows.ts";
import { ChangeWatch } from "./watch.ts";
import { Working } from "./working.ts";

export interface SqliteStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Default `full`. */
  readonly synchronous?: SynchronousMode;
  /** How long a write waits for another process's lock. Default 10 s. */
  readonly busyMs?: number;
  /** For tests: which processes live. */
  readonly host?: Host;
}

const BUSY_MS = 10_000;

export async function openSqliteStore(path: string, options: SqliteStoreOptions): Promise<Store> {
  const { clock, random, synchronous = "full", busyMs = BUSY_MS } = options;
  checkOptions(synchronous, busyMs);
  if (path !== ":memory:") prepareFolder(path);
  const connection = Connection.open({ path, busyMs, clock, random });
  try {
    await refuseForeign(connection);
    await connection.configure(synchronous);
    await migrate(connection);
    const host = options.host ?? describeHost();
    await adoptBoot(connection, host);
    return composeStore(connection, clock, host);
  } catch (error) {
    connection.close();
    throw error;
  }
}

function checkOptions(synchronous: unknown, busyMs: unknown): void {
  if (!SYNCHRONOUS_MODES.includes(synchronous as SynchronousMode)) {
    throw new SluiceError("BAD_SETTINGS", `synchronous is ${JSON.stringify(synchronous)}`, {
      hint: `It is one of ${SYNCHRONOUS_MODES.join(", ")}.`,
    });
  }
  if (!Number.isInteger(busyMs) || (busyMs as number) < 0) {
    throw new SluiceError("BAD_SETTINGS", `busyMs is ${String(busyMs)}`, {
      hint: "It is a whole number of milliseconds.",
    });
  }
}

/** After a reboot every holder is gone and monotonic times begin anew: all that waits is due. */
async function adoptBoot(connection: Connection, { bootId }: Host): Promise<void> {
  const select = connection.prepare("SELECT boot_id FROM host");
  const row = await connection.read(() => select.get() as { boot_id: string } | undefined);
  if (row?.boot_id === bootId) return;
  await connection.write(() => {
    connection.exec(`
      UPDATE chunk SET lease_until = 0 WHERE state = 'leased';
      UPDATE chunk SET due_at = 0 WHERE state = 'waiting';
      UPDATE item SET due_at = 0 WHERE due_at > 0;
      UPDATE step SET leasable_at = 0 WHERE leasable_at > 0;
      DELETE FROM claim;`);
    connection
      .prepare(
        "INSERT INTO host (one, boot_id) VALUES (1, ?) ON CONFLICT DO UPDATE SET boot_id = excluded.boot_id",
      )
      .run(bootId);
  });
}

function composeStore(connection: Connection, clock: Clock, host: Host): Store {
  const recorder = new Recorder(connection, clock, (text) => hash("sha256", text));
  const claims = new Claims(connection, clock, host);
  const conducting = new Conducting(connection, clock, recorder);
  const working = new Working(connection, clock, host, recorder);
  const reading = new Reading(connection);
  const deliveries = new Deliveries(connection, clock);
  const changes = new ChangeWatch(connection, clock);
  const find = (id: string): BatchRow => {
    const row = conducting.find(id);
    if (row === undefined) {
      throw new SluiceError("UNKNOWN_BATCH", `there is no batch ${id} in ${connection.path}`, {
        hint: "`sluice list` shows the batches that there are.",
      });
    }
    return row;
  };
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);

  return {
    name: connection.path,
    claim: (duty, worker, forMs) => write(() => claims.claim(duty, worker, forMs)),
    unclaim: (duty, worker) => write(() => claims.unclaim(duty, worker)),
    submit: (submission) => write(() => conducting.submit(submission)),
    startSlicing: (id, afresh) => write(() => conducting.startSlicing(find(id), afresh)),
    plan: (part) => write(() => conducting.plan(find(part.batch), part)),
    finishSlicing: (id, chunks, fence) =>
      write(() => conducting.finishSlicing(find(id), chunks, fence)),
    planInline: (part, lease) =>
      write(() =>
        planInline({
          plan: () => conducting.plan(find(part.batch), part),
          finish: (chunks) => conducting.finishSlicing(find(part.batch), chunks, part.fence),
          lease: () => working.work([], { ...lease, batch: part.batch }).leased,
        }),
      ),
    seal: (id) => write(() => conducting.seal(find(id))),
    fail: (id, reason) => write(() => conducting.fail(find(id), reason)),
    registerWorker: (facts) => write(() => working.register(facts)),
    work: async (reports, lease) => {
      // A look that finds nothing costs no lock, so idle workers do not disturb busy ones.
      const idle =
        reports.length === 0 && lease !== null && !(await read(() => working.hasDue(lease)));
      if (idle) return read(() => working.describeNothingDue(lease));
      return write(() => working.work(reports, lease));
    },
    renew: (leases, leaseMs) => write(() => working.renew(leases, leaseMs)),
    sweep: async () =>
      (await read(() => working.hasLost()))
        ? write(() => working.sweep())
        : { lostLeases: 0, ended: [] },
    getBatch: (id) =>
      read(() => {
        const row = conducting.find(id);
        return row === undefined ? null : toSnapshot(row);
      }),
    listBatches: (filter) => read(() => reading.listBatches(filter)),
    readManifests: (id, step, from, to) =>
      read(() => reading.readManifests(find(id).num, step, from, to)),
    readResults: (id, page) => read(() => reading.readResults(find(id).num, page)),
    readDeadLetters: (id, page) => read(() => reading.readDeadLetters(find(id).num, page)),
    readRecords: (id, after, limit) => read(() => reading.readRecords(id, after, limit)),
    recount: (id) =>
      read(() => {
        const row = conducting.find(id);
        return row === undefined ? null : reading.recount(row);
      }),
    watch: (onChange) => changes.watch(onChange),
    readPosition: (reader) => read(() => deliveries.readPosition(reader)),
    savePosition: (reader, position) => write(() => deliveries.savePosition(reader, position)),
    startReader: (reader, start) => write(() => deliveries.startReader(reader, start)),
    keepUndelivered: (letter) => write(() => deliveries.keepUndelivered(letter)),
    listUndelivered: (page) => read(() => deliveries.listUndelivered(page)),
    dropUndelivered: (id) => write(() => deliveries.dropUndelivered(id)),
    backup: (path) => backUp(connection.path, path),
    close: async () => {
      changes.stop();
      connection.close();
    },
  };
}
