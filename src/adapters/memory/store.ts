/**
 * The reference model: the whole store contract on plain values in memory, small enough to be seen
 * to be right. The simulator runs on it and the SQL stores are compared with it. It forgets
 * everything when its process ends, and its cost grows with the number of batches: it is for
 * tests, not for work.
 */
import type { Sha256 } from "../../core/chain.ts";
import { SluiceError } from "../../core/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { planInline } from "../../ports/plan-inline.ts";
import type { Store } from "../../ports/store.ts";
import { Conducting } from "./conducting.ts";
import { Deliveries } from "./deliveries.ts";
import { Reading } from "./reading.ts";
import { Recorder } from "./records.ts";
import { type Batch, createState, type State, takeSnapshot } from "./state.ts";
import { Working } from "./working.ts";

export interface MemoryStoreOptions {
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export interface MemoryStore extends Store {
  /** For tests: everything there is. */
  readonly state: State;
}

export function createMemoryStore({ clock, sha256 }: MemoryStoreOptions): MemoryStore {
  const state = createState();
  const recorder = new Recorder(state, clock, sha256);
  const conducting = new Conducting(state, clock, recorder);
  const working = new Working(state, clock, recorder);
  const reading = new Reading(state);
  const deliveries = new Deliveries(state, clock);
  const watchers = new Set<() => void>();

  const find = (id: string): Batch => {
    const batch = state.batches.get(id);
    if (batch === undefined) {
      throw new SluiceError("UNKNOWN_BATCH", `there is no batch ${id} in this store`, {
        hint: "`sluice list` shows the batches that there are.",
      });
    }
    return batch;
  };
  /** Every act runs in one synchronous piece, which makes it a transaction. */
  const act = async <T>(change: () => T): Promise<T> => {
    const result = change();
    for (const watcher of watchers) watcher();
    return result;
  };

  return {
    name: "memory",
    state,
    claim: (duty, worker, forMs) => act(() => conducting.claim(duty, worker, forMs)),
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
          lease: () => working.work([], { ...lease, batch: part.batch }).leased,
        }),
      ),
    seal: (id) => act(() => conducting.seal(find(id))),
    fail: (id, reason) => act(() => conducting.fail(find(id), reason)),
    registerWorker: () => act(() => ++state.workers),
    work: (reports, lease) => act(() => working.work(reports, lease)),
    renew: (leases, leaseMs) => act(() => working.renew(leases, leaseMs)),
    sweep: () => act(() => working.sweep()),
    getBatch: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : takeSnapshot(batch);
    },
    listBatches: async (filter) => reading.listBatches(filter),
    readManifests: async (id, _step, from, to) => reading.readManifests(find(id), from, to),
    readResults: async (id, page) => reading.readResults(find(id), page),
    readDeadLetters: async (id, page) => reading.readDeadLetters(find(id), page),
    readRecords: async (id, after, limit) => reading.readRecords(id, after, limit),
    recount: async (id) => {
      const batch = state.batches.get(id);
      return batch === undefined ? null : reading.recount(batch);
    },
    watch: (onChange) => {
      watchers.add(onChange);
      return () => void watchers.delete(onChange);
    },
    readPosition: async (reader) => state.positions.get(reader) ?? 0,
    savePosition: (reader, position) => act(() => deliveries.savePosition(reader, position)),
    startReader: (reader, start) => act(() => deliveries.startReader(reader, start)),
    keepUndelivered: (letter) => act(() => deliveries.keepUndelivered(letter)),
    listUndelivered: async (page) => deliveries.listUndelivered(page),
    dropUndelivered: (id) => act(() => deliveries.dropUndelivered(id)),
    backup: async () => {
      throw new SluiceError("NO_BACKUP", "a store in memory cannot be backed up", {
        hint: "Use a SQLite file.",
      });
    },
    close: async () => watchers.clear(),
  };
}
