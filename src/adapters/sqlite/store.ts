/**
 * The embedded store: one SQLite file in WAL mode on a local disk, for any number of processes of
 * one host. Calls are synchronous and short; a commit is on disk when it returns (`full`, the
 * default) or with the next checkpoint (`normal`, by explicit choice).
 */
import { hash } from "node:crypto";
import type { TokenGrant } from "../../core/limits/bucket.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ConductingStore } from "../../ports/store/conductor-store.ts";
import type { LimitingStore } from "../../ports/store/token-store.ts";
import type { OperatingStore } from "../../ports/store/operator-store.ts";
import { planInline } from "../../ports/store/plan-inline.ts";
import type { Random } from "../../ports/random.ts";
import type { ReadingStore } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TransactionalStore } from "../../ports/store/caller-transaction.ts";
import type { WorkingStore } from "../../ports/store/worker-store.ts";
import { backUp } from "./backup.ts";
import { Chunks } from "./chunks/chunks.ts";
import { Claims } from "./fleet/task-claims.ts";
import { Conducting } from "./batches/planning.ts";
import { Connection, SYNCHRONOUS_MODES, type SynchronousMode } from "./connection/connection.ts";
import { Deliveries } from "./topics/deliveries.ts";
import { composeEvidence } from "./ledger/evidence.ts";
import { prepareFolder } from "./connection/file-system.ts";
import { describeHost, type Host } from "../sql/host.ts";
import { commitWithCaution } from "./chunks/item-statements.ts";
import { Lanes } from "./batches/lanes.ts";
import { Ledger } from "./ledger/ledger.ts";
import { Letters } from "./batches/dead-letters.ts";
import { Life } from "./batches/batch-lifecycle.ts";
import { adoptBuckets, Limiting } from "./limits/token-buckets.ts";
import { Limits } from "./limits/limit-settings.ts";
import { Loads } from "./reading/load.ts";
import { migrate, refuseForeign } from "./connection/migrate.ts";
import { Operating } from "./batches/operator-acts.ts";
import { Permits } from "./limits/concurrency-permits.ts";
import { Pruning } from "./batches/pruning.ts";
import { Reading } from "./reading/queries.ts";
import { Recorder } from "./ledger/records.ts";
import { Redriving } from "./batches/redriving.ts";
import { type BatchRow, readSteps, toSnapshot } from "../sql/rows.ts";
import { Shares } from "./limits/fair-shares.ts";
import { Steps } from "./batches/steps.ts";
import { Sweeping } from "./working/sweeping.ts";
import { Topics } from "./topics/topics.ts";
import { Waiting } from "./reading/wait-reasons.ts";
import { ChangeWatch } from "./connection/watch.ts";
import { Within } from "./caller-transaction.ts";
import { Workers } from "./fleet/workers.ts";
import { Working } from "./working/settling.ts";

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
  const connectionOptions = { path, busyMs, clock, random };
  const connection = Connection.open(connectionOptions);
  try {
    await refuseForeign(connection);
    await connection.configure(synchronous);
    await migrate(connection);
    const host = options.host ?? describeHost();
    await adoptBoot(connection, clock, host);
    const within = new Within({
      connection,
      options: connectionOptions,
      compose: (callers) => composeParts(callers, clock, host).conducting,
    });
    const transactional: TransactionalStore = {
      within: (transaction, act) => within.run(transaction, act),
    };
    return { ...composeStore(connection, clock, host), ...transactional };
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

/**
 * After a reboot every holder is gone and monotonic times begin anew: all that waits is due, and
 * whatever nobody has moved on yet is waited for anew.
 */
async function adoptBoot(connection: Connection, clock: Clock, { bootId }: Host): Promise<void> {
  const select = connection.prepare("SELECT boot_id FROM host");
  const row = await connection.read(() => select.get() as { boot_id: string } | undefined);
  if (row?.boot_id === bootId) return;
  await connection.write(() => {
    connection.exec(`
      UPDATE chunk SET lease_until = 0 WHERE state = 'leased';
      UPDATE chunk SET due_at = 0 WHERE state = 'waiting';
      UPDATE item SET due_at = 0 WHERE due_at > 0;
      UPDATE step SET leasable_at = 0 WHERE leasable_at > 0;
      UPDATE step SET watch_due_at = 0 WHERE running = 1;
      UPDATE worker SET until = 0;
      DELETE FROM permit;
      DELETE FROM claim;`);
    adoptBuckets(connection, clock);
    connection
      .prepare("UPDATE batch SET activity_at = ? WHERE ended_at IS NULL")
      .run(Math.floor(clock.monotonicMs()));
    connection
      .prepare(
        "INSERT INTO host (one, boot_id) VALUES (1, ?) ON CONFLICT DO UPDATE SET boot_id = excluded.boot_id",
      )
      .run(bootId);
  });
}

/** The parts that stand behind the store's verbs, each made from those before it. */
function composeParts(connection: Connection, clock: Clock, host: Host): Parts {
  const recorder = new Recorder(connection, clock, (text) => hash("sha256", text));
  const workers = new Workers(connection, clock, host);
  const steps = new Steps(connection);
  const lanes = new Lanes(connection, clock, recorder, steps, workers);
  const letters = new Letters(connection, recorder, steps);
  const ledger = new Ledger(connection, recorder);
  const redriving = new Redriving(connection, steps, ledger);
  const topics = new Topics(connection, clock);
  const chunks = new Chunks(connection, clock, topics);
  const shares = new Shares(connection);
  const permits = new Permits(connection);
  const basis = { connection, clock, recorder, workers, lanes, steps, letters, redriving, chunks };
  const parts = { ...basis, shares, permits, ledger };
  const life = new Life(parts);
  return {
    connection,
    clock,
    workers,
    lanes,
    letters,
    ledger,
    recorder,
    permits,
    limits: new Limits(connection, clock, permits),
    claims: new Claims(connection, clock, host),
    conducting: new Conducting({ ...parts, life }),
    operating: new Operating({ ...parts, life }),
    pruning: new Pruning(connection, clock, topics),
    working: new Working({ ...parts, life }),
    sweeping: new Sweeping({ ...parts, life }),
    reading: new Reading(connection, letters, steps),
    loads: new Loads(connection, clock, host),
    waiting: new Waiting(parts),
    deliveries: new Deliveries(connection, clock),
    limiting: new Limiting(connection, clock),
    topics,
    changes: new ChangeWatch(connection, clock),
  };
}

interface Parts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly permits: Permits;
  readonly limits: Limits;
  readonly workers: Workers;
  readonly lanes: Lanes;
  readonly letters: Letters;
  readonly ledger: Ledger;
  readonly recorder: Recorder;
  readonly claims: Claims;
  readonly conducting: Conducting;
  readonly operating: Operating;
  readonly pruning: Pruning;
  readonly working: Working;
  readonly sweeping: Sweeping;
  readonly reading: Reading;
  readonly loads: Loads;
  readonly waiting: Waiting;
  readonly deliveries: Deliveries;
  readonly limiting: Limiting;
  readonly topics: Topics;
  readonly changes: ChangeWatch;
}

function composeStore(connection: Connection, clock: Clock, host: Host): Store {
  const parts = composeParts(connection, clock, host);
  const { deliveries, topics, changes } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    name: connection.path,
    dialect: "sqlite",
    ...composeConducting(parts),
    ...composeOperating(parts),
    ...composeWorking(parts),
    ...composeReading(parts),
    ...composeLimiting(parts),
    ...composeEvidence({ ...parts, findNum: (id) => findBatch(parts, id).num }),
    watch: (onChange) => changes.watch(onChange),
    readPosition: (reader) => read(() => deliveries.readPosition(reader)),
    savePosition: (reader, position, from) =>
      write(() => deliveries.savePosition(reader, position, from)),
    startReader: (reader, start) => write(() => deliveries.startReader(reader, start)),
    keepUndelivered: (letter, from) => write(() => deliveries.keepUndelivered(letter, from)),
    listUndelivered: (page) => read(() => deliveries.listUndelivered(page)),
    dropUndelivered: (id) => write(() => deliveries.dropUndelivered(id)),
    forgetReader: (reader) => write(() => deliveries.forgetReader(reader)),
    readMessages: (topic, after, limit) => read(() => topics.read(topic, after, limit)),
    listTopics: () => read(() => topics.list()),
    rewindReader: (reader, position) => write(() => deliveries.rewindReader(reader, position)),
    backup: (path) => backUp(connection.path, path),
    close: async () => {
      changes.stop();
      connection.close();
    },
  };
}

function findBatch({ conducting, connection }: Parts, id: string): BatchRow {
  const row = conducting.find(id);
  if (row !== undefined) return row;
  throw new SluiceError("UNKNOWN_BATCH", `there is no batch ${id} in ${connection.path}`, {
    hint: "`sluice list` shows the batches that there are.",
  });
}

function composeConducting(parts: Parts): ConductingStore {
  const { connection, claims, conducting, working } = parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  return {
    // A look that takes no lock and tells nobody: whoever stands by must not wake itself with it.
    claim: async (duty, worker, forMs) =>
      !(await connection.read(() => claims.isTaken(duty, worker))) &&
      write(() => claims.claim(duty, worker, forMs)),
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
          lease: () => working.work([], { ...lease, batch: part.batch }),
        }),
      ),
    seal: (id) => write(() => conducting.seal(find(id))),
    fail: (id, reason) => write(() => conducting.fail(find(id), reason)),
  };
}

function composeOperating(parts: Parts): OperatingStore {
  const { connection, operating, lanes, letters, pruning, limits } = parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  return {
    cancel: (id, request) => write(() => operating.cancel(find(id), request)),
    pause: (request) =>
      write(() => {
        if (request.scope === "batch") find(request.name);
        return operating.pause(request);
      }),
    resume: (scope, act) =>
      write(() => {
        if (scope.scope === "batch") find(scope.name);
        return operating.resume(scope, act);
      }),
    setLanePolicy: (lane, policy) => write(() => operating.setLanePolicy(lane, policy)),
    moveInLane: (id, move, act) =>
      write(() => {
        const kind = lanes.move(find(id), move, act) ? "done" : "moved_on";
        return { kind, batch: toSnapshot(find(id)) };
      }),
    redrive: (id, request) => write(() => operating.redrive(find(id), request)),
    editLetter: (id, request) => write(() => letters.edit(find(id), request)),
    discardLetters: (id, request) =>
      write(() => {
        const batch = find(id);
        return letters.discard(batch, readSteps(batch).length, request);
      }),
    prune: (policy) =>
      policy.dryRun
        ? connection.read(() => pruning.prune(policy))
        : write(() => pruning.prune(policy)),
    setLimit: (request, act) =>
      write(() => {
        if (request.kind === "cap" && request.scope === "batch") find(request.name);
        return limits.set(request, act);
      }),
  };
}

function composeLimiting(parts: Parts): LimitingStore {
  const { connection, limiting } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    draw: async (draws, slackMs) => {
      const draw = (): TokenGrant[] => limiting.draw(draws, slackMs);
      // Where nothing is limited nothing is written: it costs no lock.
      const isOpen = draws.every(({ spec }) => spec.kind === "open");
      return isOpen && !(await read(() => limiting.hasRates())) ? read(draw) : write(draw);
    },
    closeBucket: (bucket, forMs) => write(() => limiting.close(bucket, forMs)),
    noteOutage: (id, step, forMs) =>
      write(() => limiting.noteOutage(id, findBatch(parts, id).num, step, forMs)),
    openBucket: (bucket) => write(() => limiting.open(bucket)),
    listClosed: () => read(() => limiting.listClosed()),
  };
}

function composeWorking(parts: Parts): WorkingStore {
  const { connection, workers, working, sweeping, limiting, topics } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    registerWorker: (facts) => write(() => workers.register(facts)),
    beat: (worker, serves, forMs) => write(() => workers.beat(worker, serves, forMs)),
    work: async (reports, lease) => {
      // A look that finds nothing costs no lock, so idle workers do not disturb busy ones.
      const idle =
        reports.length === 0 && lease !== null && !(await read(() => working.hasDue(lease)));
      if (idle) return read(() => working.describeNothingDue(lease));
      const statements = reports.reduce((sum, { commits }) => sum + commits.length, 0);
      if (statements === 0) return write(() => working.work(reports, lease));
      return commitWithCaution(
        (caution) => write(() => working.work(reports, lease, caution)),
        statements,
      );
    },
    claimContents: (lease, contents) => write(() => working.claimContents(lease, contents)),
    readStops: (ids) => read(() => working.readStops(ids)),
    renew: (worker, leases, leaseMs) => write(() => working.renew(worker, leases, leaseMs)),
    sweep: async (policy) =>
      (await read(() => sweeping.hasWork(policy) || limiting.hasIdle() || topics.hasUnsent()))
        ? write(() => {
            limiting.forgetIdle();
            topics.tellUnsent();
            return sweeping.sweep(policy);
          })
        : { lostLeases: 0, tended: 0, ended: [] },
  };
}

function composeReading(parts: Parts): ReadingStore {
  const { connection, conducting, reading, waiting, letters, limits, permits, clock, loads } =
    parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  const readIfThere = <T>(id: string, look: (row: BatchRow) => T): Promise<T | null> =>
    read(() => {
      const row = conducting.find(id);
      return row === undefined ? null : look(row);
    });
  return {
    getBatch: (id) => readIfThere(id, toSnapshot),
    listBatches: (filter) => read(() => reading.listBatches(filter)),
    listUnsliced: (pipeline, limit) => read(() => reading.listUnsliced(pipeline, limit)),
    listLanes: () => read(() => waiting.listLanes()),
    listItems: (id, page) => read(() => reading.listItems(find(id), page)),
    findItem: (id, step, item) => read(() => reading.findItem(find(id).num, step, item)),
    readWaiting: (id, chunksMax) => readIfThere(id, (row) => waiting.explain(row, chunksMax)),
    readManifests: (id, step, from, to) =>
      read(() => reading.readManifests(find(id).num, step, from, to)),
    readResults: (id, page) => read(() => reading.readResults(find(id).num, page)),
    readDeadLetters: (id, page) => read(() => letters.read(find(id).num, page)),
    readRecords: (id, after, limit) => read(() => reading.readRecords(id, after, limit)),
    readLastPosition: () => read(() => reading.readLastPosition()),
    recount: (id) => readIfThere(id, (row) => reading.recount(row)),
    listLimits: () => read(() => limits.list()),
    listLimitChanges: (afterSeq, limit) => read(() => limits.listChanges(afterSeq, limit)),
    readLoad: (endedSince) => read(() => loads.read(endedSince)),
    listCapUse: () => read(() => permits.listUse(Math.floor(clock.monotonicMs()))),
  };
}
