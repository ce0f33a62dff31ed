/**
 * The embedded store: one SQLite file in WAL mode on a local disk, for any number of processes of
 * one host. Calls are synchronous and short; a commit is on disk when it returns (`full`, the
 * default) or with the next WAL checkpoint (`normal`, if chosen).
 */
import { hash } from "node:crypto";
import type { TokenGrant } from "../../core/limits/bucket.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ConductorStore } from "../../ports/store/conductor-store.ts";
import type { TokenStore } from "../../ports/store/token-store.ts";
import type { OperatorStore } from "../../ports/store/operator-store.ts";
import { planInline } from "../../ports/store/plan-inline.ts";
import type { Random } from "../../ports/random.ts";
import type { QueryStore } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TransactionalStore } from "../../ports/store/caller-transaction.ts";
import type { WorkerStore } from "../../ports/store/worker-store.ts";
import { adoptBoot } from "./adopt-boot.ts";
import { backUp } from "./backup.ts";
import { Chunks } from "./chunks/chunks.ts";
import { Planning } from "./batches/planning.ts";
import { Connection, SYNCHRONOUS_MODES, type SynchronousMode } from "./connection/connection.ts";
import { composeEvidence } from "./ledger/evidence.ts";
import { prepareFolder } from "./connection/file-system.ts";
import { describeHost, type Host } from "../sql/host.ts";
import { runNow } from "../sql/rules/act.ts";
import { setLimit } from "../sql/rules/limit-settings.ts";
import { composeRules } from "../sql/rules/verbs.ts";
import { commitWithSavepoints } from "./chunks/item-statements.ts";
import { Lanes } from "./batches/lanes.ts";
import { Ledger } from "./ledger/ledger.ts";
import { DeadLetters } from "./batches/dead-letters.ts";
import { BatchLifecycle } from "./batches/batch-lifecycle.ts";
import { TokenBuckets } from "./limits/token-buckets.ts";
import { Loads } from "./reading/load.ts";
import { migrate, refuseForeign } from "./connection/migrate.ts";
import { OperatorActs } from "./batches/operator-acts.ts";
import { ConcurrencyPermits } from "./limits/concurrency-permits.ts";
import { Pruning } from "./batches/pruning.ts";
import { Queries } from "./reading/queries.ts";
import { RecordLog } from "./ledger/records.ts";
import { Redriving } from "./batches/redriving.ts";
import { type BatchRow, readSteps, toSnapshot } from "../sql/rows.ts";
import { FairShares } from "./limits/fair-shares.ts";
import { Steps } from "./batches/steps.ts";
import { Sweeping } from "./working/sweeping.ts";
import { Topics } from "./topics/topics.ts";
import { WaitReasons } from "./reading/wait-reasons.ts";
import { ChangeWatch } from "./connection/watch.ts";
import { CallerTransaction } from "./caller-transaction.ts";
import { Workers } from "./fleet/workers.ts";
import { Settling } from "./working/settling.ts";

export interface SqliteStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Default `full`. */
  readonly synchronous?: SynchronousMode;
  /** How long a write waits for another process's lock. Default 10 s. */
  readonly busyMs?: number;
  /** For tests: which processes are alive. */
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
    const callerTransaction = new CallerTransaction({
      connection,
      options: connectionOptions,
      compose: (callers) => composeParts(callers, clock, host).planning,
    });
    const transactional: TransactionalStore = {
      within: (transaction, act) => callerTransaction.run(transaction, act),
    };
    return { ...composeStore(connection, clock, host), ...transactional };
  } catch (error) {
    connection.close();
    throw error;
  }
}

function checkOptions(synchronous: unknown, busyMs: unknown): void {
  if (!SYNCHRONOUS_MODES.includes(synchronous as SynchronousMode)) {
    throw new SluiceError("BAD_OPTION", `synchronous ${JSON.stringify(synchronous)} is unknown`, {
      field: "synchronous",
      hint: `Use one of ${SYNCHRONOUS_MODES.join(", ")}.`,
    });
  }
  if (!Number.isInteger(busyMs) || (busyMs as number) < 0) {
    throw new SluiceError("BAD_OPTION", `busyMs is not a valid time: ${String(busyMs)}`, {
      field: "busyMs",
      hint: "Give a whole number of milliseconds.",
    });
  }
}

/** The parts behind the store's calls, each made from those before it. */
function composeParts(connection: Connection, clock: Clock, host: Host): Parts {
  const records = new RecordLog(connection, clock, (text) => hash("sha256", text));
  const workers = new Workers(connection, clock, host);
  const steps = new Steps(connection);
  const lanes = new Lanes(connection, clock, records, steps, workers);
  const deadLetters = new DeadLetters(connection, records, steps);
  const ledger = new Ledger(connection, records);
  const redriving = new Redriving(connection, steps, ledger);
  const topics = new Topics(connection, clock);
  const chunks = new Chunks(connection, clock, topics);
  const shares = new FairShares(connection);
  const permits = new ConcurrencyPermits(connection);
  const basis = {
    connection,
    clock,
    records,
    workers,
    lanes,
    steps,
    deadLetters,
    redriving,
    chunks,
  };
  const parts = { ...basis, shares, permits, ledger };
  const lifecycle = new BatchLifecycle(parts);
  return {
    connection,
    clock,
    workers,
    lanes,
    deadLetters,
    ledger,
    records,
    permits,
    planning: new Planning({ ...parts, lifecycle }),
    acts: new OperatorActs({ ...parts, lifecycle }),
    pruning: new Pruning(connection, clock, topics),
    settling: new Settling({ ...parts, lifecycle }),
    sweeping: new Sweeping({ ...parts, lifecycle }),
    queries: new Queries(connection, deadLetters, steps),
    loads: new Loads(connection, clock, host),
    waitReasons: new WaitReasons(parts),
    buckets: new TokenBuckets(connection, clock),
    topics,
    changes: new ChangeWatch(connection, clock),
  };
}

interface Parts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly permits: ConcurrencyPermits;
  readonly workers: Workers;
  readonly lanes: Lanes;
  readonly deadLetters: DeadLetters;
  readonly ledger: Ledger;
  readonly records: RecordLog;
  readonly planning: Planning;
  readonly acts: OperatorActs;
  readonly pruning: Pruning;
  readonly settling: Settling;
  readonly sweeping: Sweeping;
  readonly queries: Queries;
  readonly loads: Loads;
  readonly waitReasons: WaitReasons;
  readonly buckets: TokenBuckets;
  readonly topics: Topics;
  readonly changes: ChangeWatch;
}

function composeStore(connection: Connection, clock: Clock, host: Host): Store {
  const parts = composeParts(connection, clock, host);
  const { topics, changes } = parts;
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    name: connection.path,
    dialect: "sqlite",
    ...composeRules(
      {
        read: (rule) => connection.read(({ rules }) => runNow(rule(rules))),
        write: (rule) => connection.write(({ rules }) => runNow(rule(rules))),
      },
      host,
    ),
    ...composeConducting(parts),
    ...composeOperating(parts),
    ...composeWorking(parts),
    ...composeReading(parts),
    ...composeLimiting(parts),
    ...composeEvidence({ ...parts, findNum: (id) => findBatch(parts, id).num }),
    watch: (onChange) => changes.watch(onChange),
    readMessages: (topic, after, limit) => read(() => topics.read(topic, after, limit)),
    listTopics: () => read(() => topics.list()),
    backup: (path) => backUp(connection.path, path),
    close: async () => {
      changes.stop();
      connection.close();
    },
  };
}

function findBatch({ planning, connection }: Parts, id: string): BatchRow {
  const row = planning.find(id);
  if (row !== undefined) return row;
  throw new SluiceError("NOT_FOUND", `there is no batch ${id} in ${connection.path}`, {
    kind: "batch",
    hint: "`sluice list` shows all batches.",
  });
}

function composeConducting(parts: Parts): Omit<ConductorStore, "claim" | "unclaim"> {
  const { connection, planning, settling } = parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  return {
    submit: (submission) => write(() => planning.submit(submission)),
    startSlicing: (id, afresh) => write(() => planning.startSlicing(find(id), afresh)),
    plan: (part) => write(() => planning.plan(find(part.batch), part)),
    finishSlicing: (id, chunks, fence) =>
      write(() => planning.finishSlicing(find(id), chunks, fence)),
    planInline: (part, lease) =>
      write(() =>
        planInline({
          plan: () => planning.plan(find(part.batch), part),
          finish: (chunks) => planning.finishSlicing(find(part.batch), chunks, part.fence),
          lease: () => settling.work([], { ...lease, batch: part.batch }),
        }),
      ),
    seal: (id) => write(() => planning.seal(find(id))),
    fail: (id, reason) => write(() => planning.fail(find(id), reason)),
  };
}

function composeOperating(parts: Parts): OperatorStore {
  const { connection, acts, lanes, deadLetters, pruning } = parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  return {
    cancel: (id, request) => write(() => acts.cancel(find(id), request)),
    pause: (request) =>
      write(() => {
        if (request.scope === "batch") find(request.name);
        return acts.pause(request);
      }),
    resume: (scope, act) =>
      write(() => {
        if (scope.scope === "batch") find(scope.name);
        return acts.resume(scope, act);
      }),
    setLanePolicy: (lane, policy) => write(() => acts.setLanePolicy(lane, policy)),
    moveInLane: (id, move, act) =>
      write(() => {
        const kind = lanes.move(find(id), move, act) ? "done" : "moved_on";
        return { kind, batch: toSnapshot(find(id)) };
      }),
    redrive: (id, request) => write(() => acts.redrive(find(id), request)),
    editDeadLetter: (id, request) => write(() => deadLetters.edit(find(id), request)),
    discardDeadLetters: (id, request) =>
      write(() => {
        const batch = find(id);
        return deadLetters.discard(batch, readSteps(batch).length, request);
      }),
    prune: (policy) =>
      policy.dryRun
        ? connection.read(() => pruning.prune(policy))
        : write(() => pruning.prune(policy)),
    setLimit: (request, act) =>
      connection.write(({ rules }) => {
        if (request.kind === "cap" && request.scope === "batch") find(request.name);
        return runNow(setLimit(rules, request, act));
      }),
  };
}

function composeLimiting(parts: Parts): TokenStore {
  const { connection, buckets } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    draw: async (draws, slackMs) => {
      const draw = (): TokenGrant[] => buckets.draw(draws, slackMs);
      // Nothing is limited, so nothing is written and no lock is taken.
      const isOpen = draws.every(({ spec }) => spec.kind === "open");
      return isOpen && !(await read(() => buckets.hasRates())) ? read(draw) : write(draw);
    },
    closeBucket: (bucket, forMs) => write(() => buckets.close(bucket, forMs)),
    noteOutage: (id, step, forMs) =>
      write(() => buckets.noteOutage(id, findBatch(parts, id).num, step, forMs)),
    openBucket: (bucket) => write(() => buckets.open(bucket)),
    listClosed: () => read(() => buckets.listClosed()),
  };
}

function composeWorking(parts: Parts): WorkerStore {
  const { connection, workers, settling, sweeping, buckets, topics } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
    registerWorker: (facts) => write(() => workers.register(facts)),
    beat: (worker, serves, forMs) => write(() => workers.beat(worker, serves, forMs)),
    work: async (reports, lease) => {
      // A lease that finds nothing takes no lock, so idle workers do not disturb busy ones.
      const idle =
        reports.length === 0 && lease !== null && !(await read(() => settling.hasDue(lease)));
      if (idle) return read(() => settling.describeNothingDue(lease));
      const statements = reports.reduce((sum, { commits }) => sum + commits.length, 0);
      if (statements === 0) return write(() => settling.work(reports, lease));
      return commitWithSavepoints(
        (savepoints) => write(() => settling.work(reports, lease, savepoints)),
        statements,
      );
    },
    claimContents: (lease, contents) => write(() => settling.claimContents(lease, contents)),
    readStops: (ids) => read(() => settling.readStops(ids)),
    renew: (worker, leases, leaseMs) => write(() => settling.renew(worker, leases, leaseMs)),
    sweep: async (policy) =>
      (await read(() => sweeping.hasWork(policy) || buckets.hasIdle() || topics.hasUnsent()))
        ? write(() => {
            buckets.forgetIdle();
            topics.writeUnsent();
            return sweeping.sweep(policy);
          })
        : { lostLeases: 0, tended: 0, ended: [] },
  };
}

function composeReading(parts: Parts): Omit<QueryStore, "listLimits" | "listLimitChanges"> {
  const { connection, planning, queries, waitReasons, deadLetters, permits, clock, loads } = parts;
  const find = (id: string): BatchRow => findBatch(parts, id);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  const readIfThere = <T>(id: string, look: (row: BatchRow) => T): Promise<T | null> =>
    read(() => {
      const row = planning.find(id);
      return row === undefined ? null : look(row);
    });
  return {
    getBatch: (id) => readIfThere(id, toSnapshot),
    listBatches: (filter) => read(() => queries.listBatches(filter)),
    listUnsliced: (pipeline, limit) => read(() => queries.listUnsliced(pipeline, limit)),
    listLanes: () => read(() => waitReasons.listLanes()),
    listItems: (id, page) => read(() => queries.listItems(find(id), page)),
    findItem: (id, step, item) => read(() => queries.findItem(find(id).num, step, item)),
    readWaiting: (id, chunksMax) => readIfThere(id, (row) => waitReasons.explain(row, chunksMax)),
    readManifests: (id, step, from, to) =>
      read(() => queries.readManifests(find(id).num, step, from, to)),
    readResults: (id, page) => read(() => queries.readResults(find(id).num, page)),
    readDeadLetters: (id, page) => read(() => deadLetters.read(find(id).num, page)),
    readRecords: (id, after, limit) => read(() => queries.readRecords(id, after, limit)),
    readLastPosition: () => read(() => queries.readLastPosition()),
    recount: (id) => readIfThere(id, (row) => queries.recount(row)),
    readLoad: (endedSince) => read(() => loads.read(endedSince)),
    listCapUse: () => read(() => permits.listUse(Math.floor(clock.monotonicMs()))),
  };
}
