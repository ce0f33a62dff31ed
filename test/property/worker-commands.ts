/** Commands of workers: lease, run, report, forget, die, and come back with stale leases. */
import fc from "fast-check";
import type { LeaseRequest } from "../../src/ports/store/worker-store.ts";
import {
  command,
  type Command,
  LEASES_MS,
  leaseMs,
  seldom,
  times,
  which,
  worker,
} from "./command.ts";
import { stepOf } from "./oracle-batch.ts";
import { DEED_MAX, MEMORIES, makeReport, SimulatedWorker, UNCAPPED } from "./simulated-worker.ts";
import { WORKERS } from "./stage.ts";

const flag = fc.boolean();

const deeds = fc.record({
  deeds: fc.array(fc.nat(DEED_MAX), { minLength: 1, maxLength: 6 }),
  intent: fc.constantFrom("keep", "keep", "yield"),
  memory: fc.constantFrom(MEMORIES[0], MEMORIES[0], ...MEMORIES),
  abandoned: fc.constantFrom([], [], [], [0]),
});

const request = fc.record({
  pipeline: fc.constantFrom("p", "p", "p", "q"),
  versions: fc.constantFrom(["1"], ["2"], ["1", "2"], ["2", "1"], ["1", "1"]),
  step: fc.constantFrom(0, 0, 0, 1),
  only: fc.option(which, { freq: 5 }),
  itemsMax: fc.nat(14),
  chunksMax: fc.integer({ min: 1, max: 4 }),
  leaseMs,
});

const work = command(
  "work",
  fc.record({
    worker,
    picks: fc.array(fc.record({ which: fc.nat(5), deeds }), { minLength: 1, maxLength: 3 }),
    lease: fc.option(request, { freq: 3 }),
    replyLost: seldom,
  }),
  async (stage, pair, { worker: n, picks, lease, replyLost }) => {
    const worker = stage.workers[n]!;
    const now = stage.clock.monotonicMs();
    const chosen = new Map(
      worker.held.length === 0
        ? []
        : picks.map((one) => [worker.held[one.which % worker.held.length]!, one.deeds]),
    );
    const reports =
      worker.unanswered.length > 0
        ? worker.unanswered
        : [...chosen].map(([held, what]) => makeReport(held, what, now, stage.witness));
    const asked: LeaseRequest | null =
      lease === null
        ? null
        : {
            worker: worker.number,
            pipeline: lease.pipeline,
            versions: lease.versions,
            step: lease.step,
            batch: lease.only === null ? null : stage.pick(lease.only).asked.id,
            ...UNCAPPED,
            itemsMax: lease.itemsMax,
            chunksMax: lease.chunksMax,
            leaseMs: lease.leaseMs,
          };
    const answer = await stage.work(pair, reports, asked);
    if (replyLost) {
      worker.unanswered = reports;
      return;
    }
    worker.unanswered = [];
    worker.take(answer, reports, now);
  },
);

/** A worker that lost its lease, or never had it, reports all the same. */
const haunt = command(
  "haunt",
  fc.record({
    worker,
    which: fc.nat(20),
    deeds,
    fenceOff: fc.constantFrom(0, 0, 0, -1, 1_000),
  }),
  async (stage, pair, { worker: n, which: grave, deeds: what, fenceOff }) => {
    const { graveyard, held } = stage.workers[n]!;
    const ghosts = [...graveyard, ...(fenceOff === 0 ? [] : held)];
    const ghost = ghosts[grave % Math.max(1, ghosts.length)];
    if (ghost === undefined) return;
    const report = makeReport(ghost, what, stage.clock.monotonicMs(), null);
    await stage.work(pair, [{ ...report, fence: report.fence + fenceOff }], null);
  },
);

/** A process dies after it has begun, and its lease is swept. */
const crash = command(
  "crash",
  fc.record({ which, starts: fc.constantFrom("first", "proper", "all") }),
  async (stage, pair, { which: n, starts }) => {
    const batch = stage.pick(n);
    const { chunks } = stepOf(batch);
    const { id, pipeline, version } = batch.asked;
    const worker = new SimulatedWorker(WORKERS + 1);
    const request = { worker: worker.number, pipeline, versions: [version], batch: id };
    const limits = { step: batch.step, itemsMax: 1, chunksMax: 1, leaseMs: LEASES_MS[0] };
    const uncapped = { ...limits, ...UNCAPPED };
    const now = stage.clock.monotonicMs();
    worker.take(await stage.work(pair, [], { ...request, ...uncapped }), [], now);
    const [held] = worker.held;
    if (held === undefined || chunks.length === 0) return;
    if (held.lease.guarded) {
      const idle = { deeds: [DEED_MAX], intent: "keep", memory: "good" } as const;
      const report = makeReport(held, idle, now, stage.witness);
      const all = [...held.words.keys()].filter((index) => held.words[index] === "pending");
      const { starting: proper } = report;
      const starting = { first: proper.slice(0, 1), proper, all }[starts];
      await stage.work(pair, [{ ...report, starting }], null);
    }
    stage.clock.advance(LEASES_MS[0]);
    await stage.sweep(pair);
  },
);

const die = command("die", fc.record({ worker }), async (stage, _pair, { worker: n }) =>
  stage.workers[n]!.die(),
);

const renew = command(
  "renew",
  fc.record({
    worker,
    leaseMs,
    ghosts: flag,
  }),
  (stage, pair, { worker: n, leaseMs, ghosts }) => {
    const { held, graveyard } = stage.workers[n]!;
    const leases = [...held, ...(ghosts ? graveyard.slice(-3) : [])].map(({ lease }) => lease);
    return stage.renew(pair, stage.workers[n]!.number, leases, leaseMs);
  },
);

/** A worker leases everything of one batch and finishes most of it. */
const rush = command(
  "rush",
  fc.record({ which, deeds: fc.array(fc.nat(DEED_MAX), { minLength: 1, maxLength: 4 }) }),
  async (stage, pair, { which: n, deeds: drawn }) => {
    const batch = stage.pick(n);
    const { id, pipeline, version } = batch.asked;
    const worker = new SimulatedWorker(WORKERS + 2);
    const limits = { itemsMax: 100, chunksMax: 100, leaseMs: LEASES_MS[0], ...UNCAPPED };
    const asked = { worker: worker.number, pipeline, versions: [version], step: batch.step };
    const now = stage.clock.monotonicMs();
    worker.take(await stage.work(pair, [], { ...asked, batch: id, ...limits }), [], now);
    const what = { deeds: drawn, intent: "yield", memory: "good" } as const;
    const reports = worker.held.map((held) => {
      const ready = { ...held, started: [...held.words.keys()] };
      return makeReport(ready, what, now, stage.witness);
    });
    await stage.work(pair, reports, null);
  },
);

export const workerCommands: fc.Arbitrary<Command>[] = [
  times(14, work),
  times(6, rush),
  times(4, crash),
  times(3, haunt),
  times(1, die, renew),
].flat();
