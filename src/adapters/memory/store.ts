/**
 * The reference model: the whole store contract on plain values in memory, small enough to be seen
 * to be right. The simulator runs on it and the SQL stores are compared with it. It forgets
 * everything when its process ends, and its cost grows with the number of batches: it is for
 * tests, not for work.
 */
import type { Sha256 } from "../../core/ledger/chain.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ConductingStore } from "../../ports/store/conductor-store.ts";
import type { OperatingStore } from "../../ports/store/operator-store.ts";
import { planInline } from "../../ports/store/plan-inline.ts";
import type { ReadingStore } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { WorkingStore } from "../../ports/store/worker-store.ts";
import { Conducting } from "./planning.ts";
import { Deliveries } from "./deliveries.ts";
import { composeEvidence } from "./evidence.ts";
import { readLoad } from "./load.ts";
import { Lanes } from "./lanes.ts";
import { Leasing } from "./leasing.ts";
import { Ledger } from "./ledger.ts";
import { Life } from "./batch-lifecycle.ts";
import { Limiting } from "./token-buckets.ts";
import { Limits } from "./limit-settings.ts";
import { Operating } from "./operator-acts.ts";
import { Permits } from "./concurrency-permits.ts";
import { Reading } from "./queries.ts";
import { Recorder } from "./records.ts";
import { Sweeping } from "./sweeping.ts";
import { Shares } from "./fair-shares.ts";
import { type Batch, createState, type State, takeSnapshot } from "./state.ts";
import { Topics } from "./topics.ts";
import { Working } from "./settling.ts";

export interface MemoryStoreOptions {
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export interface MemoryStore extends Store {
  /** For tests: everything there is. */
  readonly state: State;
}

/** What stands behind the store's verbs. */
class Parts {
  readonly state = createState();
  readonly watchers = new Set<() => void>();
  readonly clock: Clock;
  readonly lanes: Lanes;
  readonly permits: Permits;
  readonly limits: Limits;
  readonly conducting: Conducting;
  readonly operating: Operating;
  readonly working: Working;
  readonly sweeping: Sweeping;
  readonly reading: Reading;
  readonly deliveries: Deliveries;
  readonly limiting: Limiting;
  readonly topics: Topics;
  readonly ledger: Ledger;
  readonly recorder: Recorder;

  constructor({ clock, sha256 }: MemoryStoreOptions) {
    const { state } = this;
    const recorder = new Recorder(state, clock, sha256);
    const lanes = new Lanes(state, clock, recorder);
    const shares = new Shares(state);
    const permits = new Permits(state);
    const leasing = new Leasing(state, shares, permits);
    const ledger = new Ledger(state, recorder);
    this.ledger = ledger;
    this.recorder = recorder;
    const life = new Life({ clock, recorder, lanes, shares, permits, ledger });
    this.lanes = lanes;
    this.permits = permits;
    this.limits = new Limits(state, clock, permits);
    this.conducting = new Conducting(state, clock, recorder, lanes, life);
    const topics = new Topics(state, clock);
    this.topics = topics;
    this.operating = new Operating({ state, clock, recorder, lanes, life, topics });
    const working = new Working({ state, clock, life, shares, permits, leasing, topics, ledger });
    this.working = working;
    this.sweeping = new Sweeping({ state, clock, lanes, life, working, permits, ledger });
    this.reading = new Reading(state, clock, lanes, permits);
    this.clock = clock;
    this.deliveries = new Deliveries(state, clock);
    this.limiting = new Limiting(state, clock);
  }

  find(id: string): Batch {
    const batch = this.state.batches.get(id);
    if (batch !== undefined) return batch;
    throw new SluiceError("UNKNOWN_BATCH", `there is no batch ${id} in this store`, {
      hint: "`sluice list` shows the batches that there are.",
    });
  }

  /** Every act runs in one synchronous piece, which makes it a transaction. */
  async act<T>(change: () => T, hasChanged: (result: T) => boolean = () => true): Promise<T> {
    const result = change();
    if (hasChanged(result)) for (const watcher of this.watchers) watcher();
    return result;
  }
}

export function createMemoryStore(options: MemoryStoreOptions): MemoryStore {
  const parts = new Parts(options);
  const { state, watchers, deliveries, limiting, topics } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  return {
    name: "memory",
    state,
    ...composeConducting(parts),
    ...composeOperating(parts),
    ...composeWorking(parts),
    ...composeReading(parts),
    ...composeEvidence(parts),
    // Nobody waits for what somebody else was granted.
    draw: async (draws, slackMs) => limiting.draw(draws, slackMs),
    closeBucket: (bucket, forMs) => act(() => limiting.close(bucket, forMs)),
    noteOutage: (id, step, forMs) => act(() => limiting.noteOutage(parts.find(id), step, forMs)),
    openBucket: (bucket) => act(() => limiting.open(bucket)),
    listClosed: async () => limiting.listClosed(),
    watch: (onChange) => {
      watchers.add(onChange);
      return () => void watchers.delete(onChange);
    },
    readPosition: async (reader) => state.positions.get(reader) ?? 0,
    savePosition: (reader, position, from) =>
      act(() => deliveries.savePosition(reader, position, from)),
    startReader: (reader, start) => act(() => deliveries.startReader(reader, start)),
    keepUndelivered: (letter, from) => act(() => deliveries.keepUndelivered(letter, from)),
    listUndelivered: async (page) => deliveries.listUndelivered(page),
    dropUndelivered: (id) => act(() => deliveries.dropUndelivered(id)),
    forgetReader: (reader) => act(() => deliveries.forgetReader(reader)),
    readMessages: async (topic, after, limit) => topics.read(topic, after, limit),
    listTopics: async () => topics.list(),
    rewindReader: (reader, position) => act(() => deliveries.rewindReader(reader, position)),
    backup: async () => {
      throw new SluiceError("NO_BACKUP", "a store in memory cannot be backed up", {
        hint: "Use a SQLite file.",
      });
    },
    close: async () => watchers.clear(),
  };
}

function composeConducting(parts: Parts): ConductingStore {
  const { conducting, working } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  const find = (id: string): Batch => parts.find(id);
  return {
    // One that is refused changes nothing: whoever stands by must not wake itself with it.
    claim: (duty, worker, forMs) =>
      parts.act(
        () => conducting.claim(duty, worker, forMs),
        (isClaimed) => isClaimed,
      ),
    unclaim: (duty, worker) => act(() => conducting.unclaim(duty, worker)),
    submit: (submission) => act(() => conducting.submit(submission)),
    startSlicing: (id, afresh) => act(() => conducting.startSlicing(find(id), afresh)),
    plan: (part) => act(() => conducting.plan(find(part.batch), part)),
    finishSlicing: (id, chunks, fence) =>
      act(() => conducting.finishSlicing(find(id), chunks, fence)),
    planInline: (part, lease) =>
      act(() =>
        planInline({
          plan: () => conducting.plan(find(part.batch), part),
          finish: (chunks) => conducting.finishSlicing(find(part.batch), chunks, part.fence),
          lease: () => working.work([], { ...lease, batch: part.batch }),
        }),
      ),
    seal: (id) => act(() => conducting.seal(find(id))),
    fail: (id, reason) => act(() => conducting.fail(find(id), reason)),
  };
}

function composeOperating(parts: Parts): OperatingStore {
  const { state, operating, lanes } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  const find = (id: string): Batch => parts.find(id);
  return {
    cancel: (id, request) => act(() => operating.cancel(find(id), request)),
    pause: (request) =>
      act(() => {
        if (request.scope === "batch") find(request.name);
        return operating.pause(request);
      }),
    resume: (scope, by) =>
      act(() => {
        if (scope.scope === "batch") find(scope.name);
        return operating.resume(scope, by);
      }),
    setLanePolicy: (lane, policy) => act(() => operating.setLanePolicy(lane, policy)),
    moveInLane: (id, move, by) =>
      act(() => {
        const kind = lanes.move(find(id), move, by) ? "done" : "moved_on";
        return { kind, batch: takeSnapshot(state, find(id)) };
      }),
    redrive: (id, request) => act(() => operating.redrive(find(id), request)),
    editLetter: (id, request) => act(() => operating.editLetter(find(id), request)),
    discardLetters: (id, request) => act(() => operating.discardLetters(find(id), request)),
    prune: (policy) => act(() => operating.prune(policy)),
    setLimit: (request, by) =>
      act(() => {
        if (request.kind === "cap" && request.scope === "batch") find(request.name);
        return parts.limits.set(request, by);
      }),
  };
}

function composeWorking(parts: Parts): WorkingStore {
  const { state, working, sweeping, limiting, topics } = parts;
  const act = <T>(change: () => T): Promise<T> => parts.act(change);
  return {
    registerWorker: () => act(() => ++state.lastWorker),
    beat: (worker, serves, forMs) => act(() => working.beat(worker, serves, forMs)),
    work: (reports, lease) =>
      parts.act(
        () => working.work(reports, lease),
        // A look that finds nothing changes nothing: two idle workers must not wake each other.
        ({ leased }) => reports.length > 0 || leased.length > 0 || working.hasFreed,
      ),
    claimContents: (lease, contents) => act(() => working.claimContents(lease, contents)),
    readStops: async (ids) => working.readStops(ids),
    renew: (worker, leases, leaseMs) => act(() => working.renew(worker, leases, leaseMs)),
    sweep: (policy) =>
      act(() => {
        limiting.forgetIdle();
        topics.tellUnsent();
        return sweeping.sweep(policy);
      }),
  };
}

function composeReading(parts: Parts): ReadingStore {
  const { state, reading } = parts;
  const find = (id: string): Batch => parts.find(id);
  return {
    getBatch: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : takeSnapshot(state, batch);
    },
    listBatches: async (filter) => reading.listBatches(filter),
    listUnsliced: async (pipeline, limit) => reading.listUnsliced(pipeline, limit),
    listLanes: async () => reading.listLanes(),
    listItems: async (id, page) => reading.listItems(find(id), page),
    findItem: async (id, step, item) => reading.findItem(find(id), step, item),
    readWaiting: async (id, chunksMax) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : reading.readWaiting(batch, chunksMax);
    },
    readManifests: async (id, step, from, to) => reading.readManifests(find(id), step, from, to),
    readResults: async (id, page) => reading.readResults(find(id), page),
    readDeadLetters: async (id, page) => reading.readDeadLetters(find(id), page),
    readRecords: async (id, after, limit) => reading.readRecords(id, after, limit),
    readLastPosition: async () => reading.readLastPosition(),
    listLimits: async () => parts.limits.list(),
    listLimitChanges: async (afterSeq, limit) => parts.limits.listChanges(afterSeq, limit),
    listCapUse: async () => parts.permits.listUse(parts.clock.monotonicMs()),
    readLoad: async (endedSince) => readLoad(state, parts.clock, endedSince),
    recount: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : reading.recount(batch);
    },
  };
}
