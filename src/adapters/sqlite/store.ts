/**
 * The embedded store: one SQLite file in WAL mode on a local disk, for any number of processes of
 * one host. Calls are synchronous and short; a commit is on disk when it returns (`full`, the
 * default) or with the next WAL checkpoint (`normal`, if chosen).
 */
import { hash } from "node:crypto";
import type { TokenGrant } from "../../core/limits/bucket.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { InlineResult, PlanPart } from "../../ports/store/conductor-store.ts";
import type { TokenStore } from "../../ports/store/token-store.ts";
import { planInline } from "../../ports/store/plan-inline.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TransactionalStore } from "../../ports/store/caller-transaction.ts";
import type { LeaseRequest, WorkerStore } from "../../ports/store/worker-store.ts";
import { adoptBoot } from "./adopt-boot.ts";
import { backUp } from "./backup.ts";
import { Chunks } from "./chunks/chunks.ts";
import { Connection } from "./connection/connection.ts";
import { SYNCHRONOUS_MODES, type SynchronousMode } from "./connection/synchronous.ts";
import { prepareFolder } from "./connection/file-system.ts";
import { describeHost, type Host } from "../sql/host.ts";
import { runNow } from "../sql/dialect/act.ts";
import {
  composeConducting,
  composeDelivering,
  composeEvidence,
  composeFleet,
  composeOperating,
  composeReading,
  composeRules,
  type RuleRunner,
  type Rules,
} from "../sql/store/verbs.ts";
import { commitWithSavepoints } from "./chunks/item-statements.ts";
import { writeChunks } from "./chunks/planned-chunks.ts";
import { Ledger } from "./ledger/ledger.ts";
import { TokenBuckets } from "./limits/token-buckets.ts";
import { migrate, refuseForeign } from "./connection/migrate.ts";
import { ConcurrencyPermits } from "./limits/concurrency-permits.ts";
import type { BatchRow } from "../sql/rows.ts";
import { FairShares } from "./limits/fair-shares.ts";
import { Sweeping } from "../sql/working/sweeping.ts";
import { composeOpenLeft } from "./working/sweeping.ts";
import { Topics } from "./topics/topics.ts";
import { ChangeWatch } from "./connection/watch.ts";
import { CallerTransaction } from "./caller-transaction.ts";
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
    const permits = new ConcurrencyPermits(connection.transaction);
    const rules = composeRules({
      host,
      sha256: (text) => hash("sha256", text),
      writeChunks,
      writeOutLeases: () => undefined,
    });
    const callerTransaction = new CallerTransaction({
      connection,
      options: connectionOptions,
      planning: rules.planning,
    });
    const transactional: TransactionalStore = {
      within: (transaction, act) => callerTransaction.run(transaction, act),
    };
    return { ...composeStore({ connection, clock, rules, permits }), ...transactional };
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

interface Surroundings {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly rules: Rules;
  readonly permits: ConcurrencyPermits;
}

/** The parts behind the store's calls, each made from those before it. */
function composeParts({ connection, clock, rules, permits }: Surroundings) {
  const ledger = new Ledger(connection, rules.records);
  const chunks = new Chunks(connection, clock, new Topics(connection, rules.known));
  const shares = new FairShares(connection);
  const parts = { ...rules, connection, clock, ledger, chunks, shares, permits };
  return {
    ...parts,
    settling: new Settling(parts),
    sweeping: new Sweeping({
      ...rules,
      openLeft: composeOpenLeft(chunks, ledger),
      writeOutLeases: () => undefined,
      writeOutLost: () => undefined,
    }),
    buckets: new TokenBuckets(connection, clock),
    changes: new ChangeWatch(connection, clock),
  };
}

type Parts = ReturnType<typeof composeParts>;

function composeStore(surroundings: Surroundings): Store {
  const { connection, rules } = surroundings;
  const parts = composeParts(surroundings);
  const { changes } = parts;
  const runner: RuleRunner = {
    name: connection.path,
    read: (rule) => connection.read((tx) => runNow(rule(tx.rules))),
    write: (rule) => connection.write((tx) => runNow(rule(tx.rules))),
    erase: (rule) => connection.erase((tx) => runNow(rule(tx.rules))),
    sweep: (sweep) =>
      connection.write(({ rules: tx }) =>
        runNow(sweep({ read: (rule) => rule(tx), write: (rule) => rule(tx) })),
      ),
  };
  return {
    name: connection.path,
    dialect: "sqlite",
    ...composeConducting(runner, rules),
    ...composeOperating(runner, rules),
    ...composeReading(runner, rules),
    ...composeDelivering(runner),
    ...composeEvidence(runner, rules),
    ...composeFleet(runner, rules, parts.sweeping),
    ...composeWorking(parts),
    ...composeLimiting(parts),
    planInline: (part, lease) => composePlanInline(parts, part, lease),
    watch: (onChange) => changes.watch(onChange),
    backup: (path) => backUp(connection.path, path),
    close: async () => {
      changes.stop();
      connection.close();
    },
  };
}

function findBatch({ planning, connection }: Parts, id: string): BatchRow {
  return runNow(planning.find(connection.transaction.rules, id, connection.path));
}

/** Plan, finish and lease in one transaction. */
function composePlanInline(
  parts: Parts,
  part: PlanPart,
  lease: Omit<LeaseRequest, "batch">,
): Promise<InlineResult> {
  const { connection, planning, settling } = parts;
  const { batch, fence } = part;
  return connection.write(({ rules: tx }) =>
    planInline({
      plan: () => runNow(planning.plan(tx, findBatch(parts, batch), part)),
      finish: (chunks) => runNow(planning.finishPlan(tx, findBatch(parts, batch), chunks, fence)),
      lease: () => settling.work([], { ...lease, batch }),
    }),
  );
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

function composeWorking(parts: Parts): Omit<WorkerStore, "registerWorker" | "beat" | "sweep"> {
  const { connection, settling } = parts;
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  return {
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
  };
}
