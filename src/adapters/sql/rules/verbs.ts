/** The calls of a store that are rules of both, so that they are bound to it once. */
import type { Sha256 } from "../../../core/ledger/chain.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { OperatorStore } from "../../../ports/store/operator-store.ts";
import type { QueryStore } from "../../../ports/store/query-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { Host } from "../host.ts";
import { type BatchRow, readSteps, toSnapshot } from "../rows.ts";
import type { Act } from "../dialect/act.ts";
import { BatchLifecycle } from "./batch-lifecycle.ts";
import { DeadLetters } from "./dead-letters.ts";
import { Deliveries } from "./deliveries.ts";
import { Lanes } from "./lanes.ts";
import { listLimitChanges, listLimits, setLimit } from "./limit-settings.ts";
import { OperatorActs } from "./operator-acts.ts";
import { Planning, type WriteChunks } from "./planning.ts";
import { Queries } from "./queries.ts";
import { RecordLog } from "./records.ts";
import { Redriving } from "./redriving.ts";
import { Serving } from "./serving.ts";
import { Steps } from "./steps.ts";
import { TaskClaims } from "./task-claims.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** What the rules need of a store. */
export interface RuleSurroundings {
  readonly host: Host;
  readonly sha256: Sha256;
  readonly writeChunks: WriteChunks;
  /** Writes out what is known of leased chunks only as a range, before all are changed at once. */
  readonly writeOutLeases: (tx: RuleTransaction, num: number) => void;
  /** The state of a chunk `c`, in SQL. */
  readonly chunkState: string;
}

/** The rules about batches, each made from those before it. */
export function composeRules(surroundings: RuleSurroundings): Rules {
  const { host, sha256, chunkState, ...dialect } = surroundings;
  const records = new RecordLog(sha256);
  const serving = new Serving(host);
  const steps = new Steps();
  const lanes = new Lanes(records, steps, serving);
  const deadLetters = new DeadLetters(records, steps);
  const redriving = new Redriving(records, steps);
  const basis = { records, serving, steps, lanes, deadLetters, redriving };
  const lifecycle = new BatchLifecycle({ ...basis, ...dialect });
  const planning = new Planning({ ...basis, ...dialect, lifecycle });
  const acts = new OperatorActs({ ...basis, lifecycle });
  const queries = new Queries(deadLetters, steps, chunkState);
  return { ...basis, lifecycle, planning, acts, queries };
}

export interface Rules {
  readonly records: RecordLog;
  readonly serving: Serving;
  readonly steps: Steps;
  readonly lanes: Lanes;
  readonly deadLetters: DeadLetters;
  readonly redriving: Redriving;
  readonly lifecycle: BatchLifecycle;
  readonly planning: Planning;
  readonly acts: OperatorActs;
  readonly queries: Queries;
}

type Rule<T> = (tx: RuleTransaction) => Act<T>;

/** Runs a rule in a transaction of its own. */
export interface RuleRunner {
  /** The store, for messages. */
  readonly name: string;
  readonly read: <T>(rule: Rule<T>) => Promise<T>;
  readonly write: <T>(rule: Rule<T>) => Promise<T>;
}

type DeliveryVerbs = Pick<
  Store,
  | "readPosition"
  | "savePosition"
  | "startReader"
  | "rewindReader"
  | "forgetReader"
  | "keepUndelivered"
  | "listUndelivered"
  | "dropUndelivered"
>;

export function composeDelivering({ read, write }: RuleRunner): DeliveryVerbs {
  const deliveries = new Deliveries();
  return {
    readPosition: (reader) => read((tx) => deliveries.readPosition(tx, reader)),
    savePosition: (reader, position, from) =>
      write((tx) => deliveries.savePosition(tx, reader, position, from)),
    startReader: (reader, start) => write((tx) => deliveries.startReader(tx, reader, start)),
    rewindReader: (reader, position) =>
      write((tx) => deliveries.rewindReader(tx, reader, position)),
    forgetReader: (reader) => write((tx) => deliveries.forgetReader(tx, reader)),
    keepUndelivered: (undelivered, from) =>
      write((tx) => deliveries.keepUndelivered(tx, undelivered, from)),
    listUndelivered: (page) => read((tx) => deliveries.listUndelivered(tx, page)),
    dropUndelivered: (id) => write((tx) => deliveries.dropUndelivered(tx, id)),
  };
}

type ConductingVerbs = Pick<
  Store,
  "claim" | "unclaim" | "submit" | "startSlicing" | "plan" | "finishSlicing" | "seal" | "fail"
>;

export function composeConducting(
  runner: RuleRunner,
  { planning }: Rules,
  host: Host,
): ConductingVerbs {
  const { read, write } = runner;
  const claims = new TaskClaims(host);
  const change = composeChange(runner, planning);
  return {
    // Takes no lock and notifies no one: a process that waits for the claim must not wake itself.
    claim: async (task, worker, forMs) =>
      !(await read((tx) => claims.isTaken(tx, task, worker))) &&
      write((tx) => claims.claim(tx, task, worker, forMs)),
    unclaim: (task, worker) => write((tx) => claims.unclaim(tx, task, worker)),
    submit: (submission) => write((tx) => planning.submit(tx, submission)),
    startSlicing: (id, afresh) => change(id, (tx, row) => planning.startSlicing(tx, row, afresh)),
    plan: (part) => change(part.batch, (tx, row) => planning.plan(tx, row, part)),
    finishSlicing: (id, chunks, fence) =>
      change(id, (tx, row) => planning.finishSlicing(tx, row, chunks, fence)),
    seal: (id) => change(id, (tx, row) => planning.seal(tx, row)),
    fail: (id, reason) => change(id, (tx, row) => planning.fail(tx, row, reason)),
  };
}

type OperatingVerbs = Omit<OperatorStore, "prune"> & Pick<Store, "listLimits" | "listLimitChanges">;

export function composeOperating(runner: RuleRunner, rules: Rules): OperatingVerbs {
  const { read, write, name } = runner;
  const { acts, lanes, deadLetters, planning, records } = rules;
  const change = composeChange(runner, planning);
  function* check(tx: RuleTransaction, scope: string, id: string): Act<void> {
    if (scope === "batch") yield* planning.find(tx, id, name);
  }
  return {
    cancel: (id, request) => change(id, (tx, row) => acts.cancel(tx, row, request)),
    pause: (request) =>
      write(function* pause(tx) {
        yield* check(tx, request.scope, request.name);
        return yield* acts.pause(tx, request);
      }),
    resume: (scope, act) =>
      write(function* resume(tx) {
        yield* check(tx, scope.scope, scope.name);
        return yield* acts.resume(tx, scope, act);
      }),
    setLanePolicy: (lane, policy) => write((tx) => acts.setLanePolicy(tx, lane, policy)),
    moveInLane: (id, move, act) =>
      change(id, function* moveInLane(tx, row) {
        const kind = (yield* lanes.move(tx, row, move, act)) ? "done" : "moved_on";
        return { kind, batch: toSnapshot(yield* records.get(tx, row.num)) };
      }),
    redrive: (id, request) => change(id, (tx, row) => acts.redrive(tx, row, request)),
    editDeadLetter: (id, request) => change(id, (tx, row) => deadLetters.edit(tx, row, request)),
    discardDeadLetters: (id, request) =>
      change(id, (tx, row) => deadLetters.discard(tx, row, readSteps(row).length, request)),
    setLimit: (request, act) =>
      write(function* set(tx) {
        if (request.kind === "cap") yield* check(tx, request.scope, request.name);
        return yield* setLimit(tx, request, act);
      }),
    listLimits: () => read((tx) => listLimits(tx)),
    listLimitChanges: (afterSeq, limit) => read((tx) => listLimitChanges(tx, afterSeq, limit)),
  };
}

type ReadingVerbs = Omit<
  QueryStore,
  "listLanes" | "readWaiting" | "listLimits" | "listLimitChanges" | "listCapUse" | "readLoad"
>;

export function composeReading({ read, name }: RuleRunner, rules: Rules): ReadingVerbs {
  const { planning, queries, deadLetters } = rules;
  const readOf = <T>(
    id: string,
    look: (tx: RuleTransaction, row: BatchRow) => Act<T>,
  ): Promise<T> => read((tx) => actOn(tx, planning.find(tx, id, name), look));
  return {
    getBatch: (id) => read((tx) => describeFound(planning.look(tx, id))),
    listBatches: (filter) => read((tx) => queries.listBatches(tx, filter)),
    listUnsliced: (pipeline, limit) => read((tx) => queries.listUnsliced(tx, pipeline, limit)),
    listItems: (id, page) => readOf(id, (tx, row) => queries.listItems(tx, row, page)),
    findItem: (id, step, item) =>
      readOf(id, (tx, { num }) => queries.findItem(tx, num, step, item)),
    readManifests: (id, step, from, to) =>
      readOf(id, (tx, { num }) => queries.readManifests(tx, num, step, from, to)),
    readResults: (id, page) => readOf(id, (tx, { num }) => queries.readResults(tx, num, page)),
    readDeadLetters: (id, page) => readOf(id, (tx, { num }) => deadLetters.read(tx, num, page)),
    readRecords: (id, after, limit) => read((tx) => queries.readRecords(tx, id, after, limit)),
    readLastPosition: () => read((tx) => queries.readLastPosition(tx)),
    recount: (id) =>
      read(function* recount(tx) {
        const row = yield* planning.look(tx, id);
        return row === undefined ? null : yield* queries.recount(tx, row);
      }),
  };
}

/** A change of one batch, under its lock. */
function composeChange(
  { write, name }: RuleRunner,
  planning: Planning,
): <T>(id: string, act: (tx: RuleTransaction, row: BatchRow) => Act<T>) => Promise<T> {
  return (id, act) => write((tx) => actOn(tx, planning.lock(tx, id, name), act));
}

// Not a generator in each call: to make the function of one takes a microsecond.

function* actOn<T>(
  tx: RuleTransaction,
  found: Act<BatchRow>,
  act: (tx: RuleTransaction, row: BatchRow) => Act<T>,
): Act<T> {
  return yield* act(tx, yield* found);
}

function* describeFound(found: Act<BatchRow | undefined>): Act<BatchSnapshot | null> {
  const row = yield* found;
  return row === undefined ? null : toSnapshot(row);
}
