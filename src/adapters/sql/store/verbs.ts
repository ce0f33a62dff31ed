/** The calls of a store that are rules of both, so that they are bound to it once. */
import type { Sha256 } from "../../../core/ledger/chain.ts";
import type { CallerTransactionStore } from "../../../ports/store/caller-transaction.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { LedgerStore } from "../../../ports/store/ledger-store.ts";
import type { OperatorStore } from "../../../ports/store/operator-store.ts";
import type { QueryStore } from "../../../ports/store/query-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { TopicStore } from "../../../ports/store/topic-store.ts";
import type { SweepResult, WorkerStore } from "../../../ports/store/worker-store.ts";
import type { Host } from "../host.ts";
import { type BatchRow, readSteps, toSnapshot } from "../rows.ts";
import type { Act } from "../dialect/act.ts";
import { BatchLifecycle } from "../rules/batch-lifecycle.ts";
import { listCapUse } from "../rules/cap-use.ts";
import { DeadLetters } from "../rules/dead-letters.ts";
import { Deliveries } from "../rules/deliveries.ts";
import { Evidence } from "../rules/evidence.ts";
import { Lanes } from "../rules/lanes.ts";
import { listLimitChanges, listLimits, setLimit } from "../rules/limit-settings.ts";
import { OperatorActs } from "../rules/operator-acts.ts";
import { Planning, type WriteChunks } from "../rules/planning.ts";
import { prune } from "../rules/pruning.ts";
import { Queries } from "../rules/queries.ts";
import { RecordLog } from "../rules/records.ts";
import { Redriving } from "../rules/redriving.ts";
import { Serving } from "../rules/serving.ts";
import { Steps } from "../rules/steps.ts";
import { TaskClaims } from "../rules/task-claims.ts";
import { Workers } from "../rules/workers.ts";
import { readLoad } from "../reading/load.ts";
import { listLanes, WaitReasons } from "../reading/wait-reasons.ts";
import { KnownBatches } from "../topics/message-origin.ts";
import { listTopics, readMessages } from "../topics/topics.ts";
import type { SweepGround } from "../working/sweep-ground.ts";
import type { Sweeping } from "../working/sweeping.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** What the rules need of a store. */
export interface RuleSurroundings {
  readonly host: Host;
  readonly sha256: Sha256;
  readonly writeChunks: WriteChunks;
  /** Writes out what is known of leased chunks only as a range, before all are changed at once. */
  readonly writeOutLeases: (tx: RuleTransaction, num: number) => void;
}

/** The rules about batches, each made from those before it. */
export function composeRules(surroundings: RuleSurroundings): Rules {
  const { host, sha256, ...dialect } = surroundings;
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
  const queries = new Queries(deadLetters, steps);
  const waitReasons = new WaitReasons(serving);
  const evidence = new Evidence(records);
  const workers = new Workers(host);
  // Settings of batches are read once: reports and sweeps need them.
  const known = new KnownBatches();
  const more = { queries, waitReasons, evidence, workers, known, host };
  return { ...basis, ...more, lifecycle, planning, acts };
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
  readonly waitReasons: WaitReasons;
  readonly evidence: Evidence;
  readonly workers: Workers;
  readonly known: KnownBatches;
  readonly host: Host;
}

type Rule<T> = (tx: RuleTransaction) => Act<T>;

/** Runs a rule in a transaction of its own. */
export interface RuleRunner {
  /** The store, for messages. */
  readonly name: string;
  readonly read: <T>(rule: Rule<T>) => Promise<T>;
  readonly write: <T>(rule: Rule<T>) => Promise<T>;
  /** A change after which the removed data can no longer be read from the disk. */
  readonly erase: <T>(rule: Rule<T>) => Promise<T>;
  /** Runs a sweep: on a server each part in its own transaction, in a file all in one. */
  readonly sweep: (sweep: (ground: SweepGround) => Act<SweepResult>) => Promise<SweepResult>;
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

/** What a caller's own transaction can do too. */
export function composeSubmitting(
  runner: Pick<RuleRunner, "name" | "write">,
  planning: Planning,
): CallerTransactionStore {
  const change = composeChange(runner, planning);
  return {
    submit: (submission) => runner.write((tx) => planning.submit(tx, submission)),
    startSlicing: (id, afresh) => change(id, (tx, row) => planning.startSlicing(tx, row, afresh)),
    plan: (part) => change(part.batch, (tx, row) => planning.plan(tx, row, part)),
    finishSlicing: (id, chunks, fence) =>
      change(id, (tx, row) => planning.finishSlicing(tx, row, chunks, fence)),
    fail: (id, reason) => change(id, (tx, row) => planning.fail(tx, row, reason)),
  };
}

type ConductingVerbs = CallerTransactionStore & Pick<Store, "claim" | "unclaim" | "seal">;

export function composeConducting(runner: RuleRunner, { planning, host }: Rules): ConductingVerbs {
  const { read, write } = runner;
  const claims = new TaskClaims(host);
  const change = composeChange(runner, planning);
  return {
    ...composeSubmitting(runner, planning),
    // Takes no lock and notifies no one: a process that waits for the claim must not wake itself.
    claim: async (task, worker, forMs) =>
      !(await read((tx) => claims.isTaken(tx, task, worker))) &&
      write((tx) => claims.claim(tx, task, worker, forMs)),
    unclaim: (task, worker) => write((tx) => claims.unclaim(tx, task, worker)),
    seal: (id) => change(id, (tx, row) => planning.seal(tx, row)),
  };
}

type OperatingVerbs = OperatorStore & Pick<Store, "listLimits" | "listLimitChanges">;

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
    prune: (policy) => (policy.dryRun ? read : write)((tx) => prune(tx, policy)),
  };
}

type ReadingVerbs = Omit<QueryStore, "listLimits" | "listLimitChanges"> &
  Pick<TopicStore, "readMessages" | "listTopics">;

export function composeReading({ read, name }: RuleRunner, rules: Rules): ReadingVerbs {
  const { planning, queries, deadLetters, waitReasons, host } = rules;
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
    readMessages: (topic, after, limit) => read((tx) => readMessages(tx, topic, after, limit)),
    listTopics: () => read(listTopics),
    listLanes: () => read(listLanes),
    readWaiting: (id, chunksMax) =>
      read(function* readWaiting(tx) {
        const row = yield* planning.look(tx, id);
        return row === undefined ? null : yield* waitReasons.explain(tx, row, chunksMax);
      }),
    readLoad: (endedSince) => read((tx) => readLoad(tx, host, endedSince)),
    listCapUse: () => read(listCapUse),
    readLastPosition: () => read((tx) => queries.readLastPosition(tx)),
    recount: (id) =>
      read(function* recount(tx) {
        const row = yield* planning.look(tx, id);
        return row === undefined ? null : yield* queries.recount(tx, row);
      }),
  };
}

export function composeEvidence(runner: RuleRunner, rules: Rules): LedgerStore {
  const { read, write, erase } = runner;
  const { evidence, planning } = rules;
  const change = composeChange(runner, planning);
  const eraseOf = composeChange({ ...runner, write: erase }, planning);
  return {
    readLedger: (id, after, limit) => read((tx) => evidence.readLedger(tx, id, after, limit)),
    findSignedHead: (id) => read((tx) => evidence.findSignedHead(tx, id)),
    readSignedHeads: (id) => read((tx) => evidence.readSignedHeads(tx, id)),
    addSignedHead: (id, signedHead, afterSize) =>
      change(id, (tx, row) => evidence.addSignedHead(tx, row, signedHead, afterSize)),
    readKeys: () => read((tx) => evidence.readKeys(tx)),
    addKey: (key) => write((tx) => evidence.addKey(tx, key)),
    eraseDetails: (id, kept, act) => eraseOf(id, (tx, row) => evidence.erase(tx, row, kept, act)),
  };
}

type FleetVerbs = Pick<WorkerStore, "registerWorker" | "beat" | "sweep">;

export function composeFleet(
  { read, write, sweep }: RuleRunner,
  { workers }: Rules,
  sweeping: Sweeping,
): FleetVerbs {
  return {
    registerWorker: (facts) => write((tx) => workers.register(tx, facts)),
    beat: (worker, serves, forMs) => write((tx) => workers.beat(tx, worker, serves, forMs)),
    sweep: async (policy) => {
      const findings = await read((tx) => sweeping.look(tx, policy));
      return Object.values(findings).includes(true)
        ? sweep((ground) => sweeping.sweep(ground, policy, findings))
        : { lostLeases: 0, tended: 0, ended: [] };
    },
  };
}

/** A change of one batch, under its lock. */
function composeChange(
  { write, name }: Pick<RuleRunner, "name" | "write">,
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
