/**
 * The store for many machines: one schema of a PostgreSQL database. Every write to a batch happens
 * under the lock of its row, so writes are serialised for each batch and never across batches
 * (docs/decisions/0023). Leases use the server's clock.
 */
import { hash } from "node:crypto";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { InlineResult, PlanPart } from "../../ports/store/conductor-store.ts";
import type { PrunePolicy } from "../../ports/store/operator-store.ts";
import type { TokenStore } from "../../ports/store/token-store.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeaseRequest, WorkerStore } from "../../ports/store/worker-store.ts";
import { type Act, runAct } from "../sql/dialect/act.ts";
import { ownOf } from "./connection/rules.ts";
import {
  composeConducting,
  composeDelivering,
  composeEvidence,
  composeFleet,
  composeOperating,
  composeReading,
  composeRules,
  type RuleRunner,
  type RuleSurroundings,
} from "../sql/store/verbs.ts";
import { materialise, materialiseLost } from "./chunks/lease-runs.ts";
import { writeChunks } from "./chunks/planned-chunks.ts";
import { describeHost, type Host } from "../sql/host.ts";
import type { BatchRow } from "../sql/rows.ts";
import { readAddress } from "./connection/address.ts";
import { Chunks } from "./chunks/chunks.ts";
import { Connection } from "./connection/connection.ts";
import { ContentClaims } from "./chunks/content-claims.ts";
import { Ledger } from "./ledger/ledger.ts";
import { TokenBuckets } from "./limits/token-buckets.ts";
import { migrate, refuseMissing } from "./connection/migrate.ts";
import { ConcurrencyPermits } from "./limits/concurrency-permits.ts";
import { numberMessages, numberRecords } from "./topics/positions.ts";
import { FairShares } from "./limits/fair-shares.ts";
import type { RuleTransaction } from "../sql/dialect/transaction.ts";
import type { SweepGround } from "../sql/working/sweep-ground.ts";
import { Sweeping } from "../sql/working/sweeping.ts";
import { composeOpenLeft } from "./working/sweeping.ts";
import type { Transaction } from "./connection/transaction.ts";
import { ChangeWatch } from "./connection/watch.ts";
import { runWithin } from "./caller-transaction.ts";
import { Settling } from "./working/settling.ts";

export interface PostgresStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How long a change is retried while other transactions use the same rows. Default 10 s. */
  readonly busyMs?: number;
  /** Connections of this process at most. Default 8. */
  readonly connectionsMax?: number;
  /** Refuse a schema that does not exist, instead of creating it: for commands that only read. */
  readonly mustExist?: boolean;
  /** For tests: the store's time, instead of the server's. */
  readonly time?: Pick<Clock, "monotonicMs" | "wallMs">;
  /** For tests: which processes are alive. */
  readonly host?: Host;
}

const BUSY_MS = 10_000;
const CONNECTIONS_MAX = 8;
/** A waiting worker makes less than one query a second: notifications tell it of changes. */
export const LOOKS = { pollMs: 20_000, sweepMs: 5_000 };

export async function openPostgresStore(
  address: string,
  options: PostgresStoreOptions,
): Promise<Store> {
  const { clock, random, busyMs = BUSY_MS, connectionsMax = CONNECTIONS_MAX } = options;
  checkNumber("busyMs", busyMs, 0);
  checkNumber("connectionsMax", connectionsMax, 1);
  const connection = new Connection({
    address: readAddress(address),
    busyMs,
    connectionsMax,
    clock,
    random,
    time: options.time ?? null,
  });
  try {
    if (options.mustExist === true) await refuseMissing(connection);
    await migrate(connection);
    return composeStore(connection, { clock, random, host: options.host ?? describeHost() });
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function checkNumber(name: string, value: number, min: number): void {
  if (Number.isInteger(value) && value >= min) return;
  const hint = `Give a whole number, ${min} or more.`;
  throw new SluiceError("BAD_OPTION", `${name} is ${String(value)}`, { field: name, hint });
}

interface Surroundings {
  readonly clock: Clock;
  readonly random: Random;
  readonly host: Host;
}

/** The parts behind the store's calls, each made from those before it. */
function composeParts(connection: Connection, { clock, random, host }: Surroundings) {
  const permits = new ConcurrencyPermits();
  const writeOutLeases: RuleSurroundings["writeOutLeases"] = (tx, num) =>
    materialise(ownOf(tx), num);
  const rules = composeRules({
    host,
    sha256: (text) => hash("sha256", text),
    writeChunks,
    writeOutLeases,
  });
  const ledger = new Ledger(rules.records);
  const chunks = new Chunks(rules.known);
  const shares = new FairShares();
  const buckets = new TokenBuckets();
  const basis = { ...rules, connection, ledger, chunks, shares, permits, buckets };
  return {
    ...basis,
    rules,
    settling: new Settling(basis),
    contentClaims: new ContentClaims(chunks),
    sweeping: new Sweeping({
      ...rules,
      openLeft: composeOpenLeft(chunks, ledger),
      writeOutLeases,
      writeOutLost: (tx, num, by, gone) => materialiseLost(ownOf(tx), num, by, gone),
    }),
    changes: new ChangeWatch(connection, clock, random),
  };
}

type Parts = ReturnType<typeof composeParts>;

function composeStore(connection: Connection, surroundings: Surroundings): Store {
  const parts = composeParts(connection, surroundings);
  const { changes } = parts;
  return {
    name: connection.name,
    spansHosts: true,
    dialect: "postgres",
    looks: LOOKS,
    ...composeShared(parts),
    ...composeWorking(parts),
    ...composeLimiting(parts),
    planInline: (part, lease) => connection.write((tx) => planInline(parts, tx, part, lease)),
    watch: (onChange) => changes.watch(onChange),
    within: (transaction, act) => runWithin(connection, parts.planning, transaction, act),
    backup: async () => {
      const hint = "Use pg_dump (a store is one schema) or your server's base backups.";
      const message = `Sluice cannot back up ${connection.name}`;
      throw new SluiceError("STORE_UNSUPPORTED", message, { kind: "backup", hint });
    },
    close: async () => {
      await changes.stop();
      await connection.close();
    },
  };
}

/** Calls that are rules of both stores. Those that need positions assign them first. */
function composeShared({ connection, rules, sweeping }: Parts) {
  const write: RuleRunner["write"] = (rule) => connection.write((tx) => runAct(rule(tx.rules)));
  const read: RuleRunner["read"] = (rule) => connection.read((tx) => runAct(rule(tx.rules)));
  const ground: SweepGround = {
    *read<T>(rule: (tx: RuleTransaction) => Act<T>) {
      return (yield read(rule)) as T;
    },
    *write<T>(rule: (tx: RuleTransaction) => Act<T>) {
      return (yield write(rule)) as T;
    },
  };
  const runner: RuleRunner = {
    name: connection.name,
    read,
    write,
    erase: write,
    sweep: (sweep) => runAct(sweep(ground)),
  };
  const verbs = {
    ...composeConducting(runner, rules),
    ...composeOperating(runner, rules),
    ...composeReading(runner, rules),
    ...composeDelivering(runner),
    ...composeEvidence(runner, rules),
    ...composeFleet(runner, rules, sweeping),
  };
  const records =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      await numberRecords(connection);
      return call(...args);
    };
  const messages =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      await numberMessages(connection);
      return call(...args);
    };
  return {
    ...verbs,
    readRecords: records(verbs.readRecords),
    readLastPosition: records(verbs.readLastPosition),
    readMessages: messages(verbs.readMessages),
    listTopics: messages(verbs.listTopics),
    // Positions decide which records a reader starts at, and which it still needs.
    startReader: records(messages(verbs.startReader)),
    prune: records(messages((policy: PrunePolicy) => verbs.prune(policy))),
  };
}

async function planInline(
  { planning, settling, connection }: Parts,
  tx: Transaction,
  part: PlanPart,
  lease: LeaseRequest,
): Promise<InlineResult> {
  const { batch, fence } = part;
  const row = await runAct(planning.lock(tx.rules, batch, connection.name));
  const planned = await runAct(planning.plan(tx.rules, row, part));
  if (planned.kind !== "planned") return planned;
  const ready = await runAct(planning.find(tx.rules, batch, connection.name));
  const finished = await runAct(planning.finishPlan(tx.rules, ready, planned.chunks, fence));
  if (finished.kind === "moved_on") return { kind: "moved_on", batch: finished.batch };
  const { result } = await settling.work(tx, [], { ...lease, batch });
  const { leased, permits } = result;
  const [chunk] = leased;
  // Another batch holds its lane, it is paused, or a cap is reached.
  return chunk === undefined || permits === null ? planned : { kind: "leased", chunk, permits };
}

function findBatch(parts: Parts, tx: Transaction, id: string): Promise<BatchRow> {
  return runAct(parts.planning.find(tx.rules, id, parts.connection.name));
}

function composeLimiting(parts: Parts): TokenStore {
  const { connection, buckets } = parts;
  return {
    draw: async (draws, slackMs) => {
      // Nothing is limited, so nothing is written and no lock is taken.
      const isOpen = draws.every(({ spec }) => spec.kind === "open");
      const look = isOpen && !(await connection.read((tx) => buckets.hasRates(tx)));
      return look
        ? connection.read((tx) => buckets.draw(tx, draws, slackMs))
        : connection.write((tx) => buckets.draw(tx, draws, slackMs));
    },
    closeBucket: (bucket, forMs) => connection.write((tx) => buckets.close(tx, bucket, forMs)),
    noteOutage: (id, step, forMs) =>
      connection.write(async (tx) => {
        const { num } = await findBatch(parts, tx, id);
        return buckets.noteOutage(tx, id, num, step, forMs);
      }),
    openBucket: (bucket) => connection.write((tx) => buckets.open(tx, bucket)),
    listClosed: () => connection.read((tx) => buckets.listClosed(tx)),
  };
}

function composeWorking(parts: Parts): Omit<WorkerStore, "registerWorker" | "beat" | "sweep"> {
  const { connection, settling, contentClaims } = parts;
  const write = <T>(change: (tx: Transaction) => Promise<T>): Promise<T> =>
    connection.write(change);
  return {
    work: async (reports, lease) => {
      // A lease that finds nothing takes no lock, so idle workers do not disturb busy ones.
      if (reports.length === 0 && lease !== null) {
        const nothing = await connection.read((tx) => settling.findNothingDue(tx, lease));
        if (nothing !== null) return nothing;
      }
      const { result, contended } = await write((tx) => settling.work(tx, reports, lease));
      if (contended === null || reports.length > 0) return result;
      return (await write((tx) => settling.work(tx, [], lease, contended))).result;
    },
    claimContents: (lease, wanted) => write((tx) => contentClaims.claim(tx, lease, wanted)),
    readStops: (ids) => connection.read((tx) => settling.readStops(tx, ids)),
    renew: (worker, leases, leaseMs) => write((tx) => settling.renew(tx, worker, leases, leaseMs)),
  };
}
