/**
 * The reference model: the whole store contract on plain values in memory, small enough to be
 * checked by reading. The simulator runs on it, and the SQL stores are compared with it. It loses
 * everything when its process ends, and its cost grows with the number of batches: it is for tests,
 * not for work.
 */
import type { Sha256 } from "../../core/ledger/chain.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ConductorStore } from "../../ports/store/conductor-store.ts";
import type { OperatorStore } from "../../ports/store/operator-store.ts";
import { planInline } from "../../ports/store/plan-inline.ts";
import type { QueryStore } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { WorkerStore } from "../../ports/store/worker-store.ts";
import { Planning } from "./planning.ts";
import { Deliveries } from "./deliveries.ts";
import { composeEvidence } from "./evidence.ts";
import { readLoad } from "./load.ts";
import { Lanes } from "./lanes.ts";
import { Leasing } from "./leasing.ts";
import { Ledger } from "./ledger.ts";
import { BatchLifecycle } from "./batch-lifecycle.ts";
import { TokenBuckets } from "./token-buckets.ts";
import { LimitSettings } from "./limit-settings.ts";
import { OperatorActs } from "./operator-acts.ts";
import { ConcurrencyPermits } from "./concurrency-permits.ts";
import { Queries } from "./queries.ts";
import { RecordLog } from "./records.ts";
import { Sweeping } from "./sweeping.ts";
import { FairShares } from "./fair-shares.ts";
import { type Batch, createState, type State, takeSnapshot } from "./state.ts";
import { Topics } from "./topics.ts";
import { Settling } from "./settling.ts";

export interface MemoryStoreOptions {
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export interface MemoryStore extends Store {
  /** For tests: the whole state. */
  readonly state: State;
}

/** The parts behind the store's calls. */
class Parts {
  readonly state = createState();
  readonly watchers = new Set<() => void>();
  readonly clock: Clock;
  readonly lanes: Lanes;
  readonly permits: ConcurrencyPermits;
  readonly limits: LimitSettings;
  readonly planning: Planning;
  readonly acts: OperatorActs;
  readonly settling: Settling;
  readonly sweeping: Sweeping;
  readonly queries: Queries;
  readonly deliveries: Deliveries;
  readonly buckets: TokenBuckets;
  readonly topics: Topics;
  readonly ledger: Ledger;
  readonly records: RecordLog;

  constructor({ clock, sha256 }: MemoryStoreOptions) {
    const { state } = this;
    const records = new RecordLog(state, clock, sha256);
    const lanes = new Lanes(state, clock, records);
    const shares = new FairShares(state);
    const permits = new ConcurrencyPermits(state);
    const leasing = new Leasing(state, shares, permits);
    const ledger = new Ledger(state, records);
    this.ledger = ledger;
    this.records = records;
    const lifecycle = new BatchLifecycle({ clock, records, lanes, shares, permits, ledger });
    this.lanes = lanes;
    this.permits = permits;
    this.limits = new LimitSettings(state, clock, permits);
    this.planning = new Planning(state, clock, records, lanes, lifecycle);
    const topics = new Topics(state, clock);
    this.topics = topics;
    this.acts = new OperatorActs({ state, clock, records, lanes, lifecycle, topics });
    const settling = new Settling({
      state,
      clock,
      lifecycle,
      shares,
      permits,
      leasing,
      topics,
      ledger,
    });
    this.settling = settling;
    this.sweeping = new Sweeping({ state, clock, lanes, lifecycle, settling, permits, ledger });
    this.queries = new Queries(state, clock, lanes, permits);
    this.clock = clock;
    this.deliveries = new Deliveries(state, clock);
    this.buckets = new TokenBuckets(state, clock);
  }

  find(id: string): Batch {
    const batch = this.state.batches.get(id);
    if (batch !== undefined) return batch;
    throw new SluiceError("NOT_FOUND", `there is no batch ${id} in this store`, {
      kind: "batch",
      hint: "`sluice list` shows all batches.",
    });
  }

  /** Every act runs synchronously, so it is a transaction. */
  async act<T>(change: () => T, hasChanged: (result: T) => boolean = () => true): Promise<T> {
    const result = change();
    if (hasChanged(result)) for (const watcher of this.watchers) watcher();
    return result;
  }
}

export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  const parts = new Parts(options);
  const { state, watchers, deliveries, buckets, topics } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  return {
    name: "memory",
    state,
    ...composeConducting(parts),
    ...composeOperating(parts),
    ...composeWorking(parts),
    ...composeReading(parts),
    ...composeEvidence(parts),
    // Tokens that a worker draws wake no other worker.
    draw: async (draws, slackMs) => buckets.draw(draws, slackMs),
    closeBucket: (bucket, forMs) => act(() => buckets.close(bucket, forMs)),
    noteOutage: (id, step, forMs) => act(() => buckets.noteOutage(parts.find(id), step, forMs)),
    openBucket: (bucket) => act(() => buckets.open(bucket)),
    listClosed: async () => buckets.listClosed(),
    watch: (onChange) => {
      watchers.add(onChange);
      return () => void watchers.delete(onChange);
    },
    readPosition: async (reader) => state.positions.get(reader) ?? 0,
    savePosition: (reader, position, from) =>
      act(() => deliveries.savePosition(reader, position, from)),
    startReader: (reader, start) => act(() => deliveries.startReader(reader, start)),
    keepUndelivered: (undelivered, from) =>
      act(() => deliveries.keepUndelivered(undelivered, from)),
    listUndelivered: async (page) => deliveries.listUndelivered(page),
    dropUndelivered: (id) => act(() => deliveries.dropUndelivered(id)),
    forgetReader: (reader) => act(() => deliveries.forgetReader(reader)),
    readMessages: async (topic, after, limit) => topics.read(topic, after, limit),
    listTopics: async () => topics.list(),
    rewindReader: (reader, position) => act(() => deliveries.rewindReader(reader, position)),
    backup: async () => {
      throw new SluiceError("STORE_UNSUPPORTED", "a memory store cannot be backed up", {
        kind: "backup",
        hint: "Use a SQLite file.",
      });
    },
    close: async () => watchers.clear(),
  };
}

function composeConducting(parts: Parts): ConductorStore {
  const { planning, settling } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  const find = (id: string): Batch => parts.find(id);
  return {
    // A refused claim changes nothing: a process that waits for the claim must not wake itself.
    claim: (task, worker, forMs) =>
      parts.act(
        () => planning.claim(task, worker, forMs),
        (isClaimed) => isClaimed,
      ),
    unclaim: (task, worker) => act(() => planning.unclaim(task, worker)),
    submit: (submission) => act(() => planning.submit(submission)),
    startSlicing: (id, afresh) => act(() => planning.startSlicing(find(id), afresh)),
    plan: (part) => act(() => planning.plan(find(part.batch), part)),
    finishSlicing: (id, chunks, fence) =>
      act(() => planning.finishSlicing(find(id), chunks, fence)),
    planInline: (part, lease) =>
      act(() =>
        planInline({
          plan: () => planning.plan(find(part.batch), part),
          finish: (chunks) => planning.finishSlicing(find(part.batch), chunks, part.fence),
          lease: () => settling.work([], { ...lease, batch: part.batch }),
        }),
      ),
    seal: (id) => act(() => planning.seal(find(id))),
    fail: (id, reason) => act(() => planning.fail(find(id), reason)),
  };
}

function composeOperating(parts: Parts): OperatorStore {
  const { state, acts, lanes } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  const find = (id: string): Batch => parts.find(id);
  return {
    cancel: (id, request) => act(() => acts.cancel(find(id), request)),
    pause: (request) =>
      act(() => {
        if (request.scope === "batch") find(request.name);
        return acts.pause(request);
      }),
    resume: (scope, by) =>
      act(() => {
        if (scope.scope === "batch") find(scope.name);
        return acts.resume(scope, by);
      }),
    setLanePolicy: (lane, policy) => act(() => acts.setLanePolicy(lane, policy)),
    moveInLane: (id, move, by) =>
      act(() => {
        const kind = lanes.move(find(id), move, by) ? "done" : "moved_on";
        return { kind, batch: takeSnapshot(state, find(id)) };
      }),
    redrive: (id, request) => act(() => acts.redrive(find(id), request)),
    editDeadLetter: (id, request) => act(() => acts.editDeadLetter(find(id), request)),
    discardDeadLetters: (id, request) => act(() => acts.discardDeadLetters(find(id), request)),
    prune: (policy) => act(() => acts.prune(policy)),
    setLimit: (request, by) =>
      act(() => {
        if (request.kind === "cap" && request.scope === "batch") find(request.name);
        return parts.limits.set(request, by);
      }),
  };
}

function composeWorking(parts: Parts): WorkerStore {
  const { state, settling, sweeping, buckets, topics } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  return {
    registerWorker: () => act(() => ++state.lastWorker),
    beat: (worker, serves, forMs) => act(() => settling.beat(worker, serves, forMs)),
    work: (reports, lease) =>
      parts.act(
        () => settling.work(reports, lease),
        // A lease that finds nothing changes nothing: two idle workers must not wake each other.
        ({ leased }) => reports.length > 0 || leased.length > 0 || settling.hasFreed,
      ),
    claimContents: (lease, contents) => act(() => settling.claimContents(lease, contents)),
    readStops: async (ids) => settling.readStops(ids),
    renew: (worker, leases, leaseMs) => act(() => settling.renew(worker, leases, leaseMs)),
    sweep: (policy) =>
      act(() => {
        buckets.forgetIdle();
        topics.writeUnsent();
        return sweeping.sweep(policy);
      }),
  };
}

function composeReading(parts: Parts): QueryStore {
  const { state, queries } = parts;
  const find = (id: string): Batch => parts.find(id);
  return {
    getBatch: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : takeSnapshot(state, batch);
    },
    listBatches: async (filter) => queries.listBatches(filter),
    listUnsliced: async (pipeline, limit) => queries.listUnsliced(pipeline, limit),
    listLanes: async () => queries.listLanes(),
    listItems: async (id, page) => queries.listItems(find(id), page),
    findItem: async (id, step, item) => queries.findItem(find(id), step, item),
    readWaiting: async (id, chunksMax) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : queries.readWaiting(batch, chunksMax);
    },
    readManifests: async (id, step, from, to) => queries.readManifests(find(id), step, from, to),
    readResults: async (id, page) => queries.readResults(find(id), page),
    readDeadLetters: async (id, page) => queries.readDeadLetters(find(id), page),
    readRecords: async (id, after, limit) => queries.readRecords(id, after, limit),
    readLastPosition: async () => queries.readLastPosition(),
    listLimits: async () => parts.limits.list(),
    listLimitChanges: async (afterSeq, limit) => parts.limits.listChanges(afterSeq, limit),
    listCapUse: async () => parts.permits.listUse(parts.clock.monotonicMs()),
    readLoad: async (endedSince) => readLoad(state, parts.clock, endedSince),
    recount: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : queries.recount(batch);
    },
  };
}
