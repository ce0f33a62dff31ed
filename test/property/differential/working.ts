/** Commands of workers and sweepers. */
import fc from "fast-check";
import {
  type LeasedChunk,
  type LeaseRef,
  type LeaseRequest,
  nameLease,
  type SweepPolicy,
} from "../../../src/ports/store/worker-store.ts";
import { SimulatedWorker } from "../simulated-worker.ts";
import { CONTENTS, type Deeds, deeds } from "./reports.ts";
import { command, isRunning, onceIn, PIPELINES, type Stage, target, VERSIONS } from "./stage.ts";

const flag = fc.boolean();
const worker = fc.nat(2);
const leaseMs = fc.constantFrom(20, 60, 200);
const LONG_MS = 10 ** 12;

const lease = fc.record({
  target,
  /** Another step, other versions. */
  astray: onceIn(10),
  versions: fc.constantFrom(null, null, ["1", "2"], ["2", "2", "1"]),
  only: flag,
  itemsMax: fc.constantFrom(8, 20, 3, 0),
  chunksMax: fc.constantFrom(2, 4, 1),
  leaseMs,
  slots: fc.constantFrom(1, 2, 3, 8),
  /** The scopes that the worker holds: how many slots of each it reports; null reports nothing. */
  keeps: fc.array(fc.option(fc.nat(3)), { maxLength: 3 }),
});

type Lease = typeof lease extends fc.Arbitrary<infer T> ? T : never;

function ask(stage: Stage, number: number, asked: Lease): LeaseRequest {
  const { target: aim, astray, versions, keeps, ...limits } = asked;
  const request = stage.requestOf(stage.choose(aim, stage.hasDueWork), number, limits);
  const step = request.step + (astray ? 1 : 0);
  const kept = stage.listPermits(number).flatMap((scope, at) => {
    const slots = keeps[at] ?? null;
    return slots === null ? [] : [{ scope, slots }];
  });
  return { ...request, step, versions: versions ?? request.versions, keeps: kept };
}

const work = command(
  "work",
  fc.record({
    worker,
    picks: fc.array(fc.record({ nth: fc.nat(5), deeds }), { minLength: 1, maxLength: 3 }),
    lease: fc.option(lease, { freq: 5 }),
    replyLost: onceIn(8),
  }),
  async (stage, { worker: nth, picks, lease: asked, replyLost }) => {
    const one = stage.worker(nth);
    const now = stage.clock.monotonicMs();
    const { held } = one;
    const chosen = new Map(
      held.length === 0 ? [] : picks.map((pick) => [held[pick.nth % held.length]!, pick.deeds]),
    );
    const reports =
      one.unanswered.length > 0
        ? one.unanswered
        : [...chosen].map(([what, drawn]) => stage.report(what, drawn));
    const request = asked === null ? null : ask(stage, one.number, asked);
    const answer = await stage.lineup.call("work", reports, request);
    one.unanswered = replyLost ? reports : [];
    if (answer !== null && !replyLost) one.take(answer, reports, now);
  },
);

/** A worker that lost its lease, or never had it, reports all the same. */
const haunt = command(
  "haunt",
  fc.record({
    worker,
    nth: fc.nat(20),
    deeds,
    off: fc.constantFrom("nothing", "nothing", "fence", "chunk", "step", "batch"),
  }),
  async (stage, { worker: n, nth, deeds: drawn, off }) => {
    const { graveyard, held } = stage.worker(n);
    const ghosts = [...graveyard, ...(off === "nothing" ? [] : held)];
    const ghost = ghosts[nth % Math.max(1, ghosts.length)];
    if (ghost === undefined) return;
    const report = stage.report(ghost, drawn);
    const wrong = {
      nothing: {},
      fence: { fence: report.fence - 1 },
      chunk: { chunk: report.chunk + 99 },
      step: { step: report.step + 1 },
      batch: { batch: "b-unknown" },
    };
    await stage.lineup.call("work", [{ ...report, ...wrong[off] }], null);
  },
);

/** Leases everything that is due of a batch and makes the same report on every chunk. */
async function take(stage: Stage, id: string, ms: number): Promise<SimulatedWorker> {
  const stranger = new SimulatedWorker(1);
  const limits = { only: true, itemsMax: 1_000, chunksMax: 100, leaseMs: ms, slots: 2 };
  const request = stage.requestOf(id, stranger.number, limits);
  const answer = await stage.lineup.call("work", [], request);
  if (answer !== null) stranger.take(answer, [], stage.clock.monotonicMs());
  return stranger;
}

async function report(stage: Stage, one: SimulatedWorker, drawn: Deeds): Promise<void> {
  if (one.held.length === 0) return;
  const now = stage.clock.monotonicMs();
  const reports = one.held.map((held) =>
    stage.report({ ...held, started: [...held.words.keys()] }, drawn),
  );
  const answer = await stage.lineup.call("work", reports, null);
  if (answer !== null) one.take(answer, reports, now);
}

const rush = command(
  "rush",
  fc.record({ target, deeds }),
  async (stage, { target: aim, deeds: drawn }) => {
    const stranger = await take(stage, stage.choose(aim, stage.hasDueWork), 20);
    await report(stage, stranger, { ...drawn, intent: "yield" });
  },
);

/** Much of a batch fails, each item in a different way. */
const stumble = command(
  "stumble",
  fc.record({
    target,
    ways: fc.array(
      fc.constantFrom(
        "despair",
        "give up",
        "wonder",
        "bear fruit",
        "save and retry",
        "save and despair",
      ),
      {
        minLength: 1,
        maxLength: 4,
      },
    ),
    keyed: flag,
  }),
  async (stage, { target: aim, ways, keyed }) => {
    const stranger = await take(stage, stage.choose(aim, stage.hasDueWork), 20);
    await report(stage, stranger, { ...SUCCESS, deeds: ways, keyed });
  },
);

const SUCCESS: Deeds = {
  deeds: ["succeed", "bear fruit"],
  intent: "yield",
  memory: "good",
  abandons: false,
  starts: 1,
  keyed: false,
  limitWait: null,
  busyMs: 3,
  blocks: [1],
};

export async function succeed(stage: Stage, id: string): Promise<void> {
  await report(stage, await take(stage, id, 20), SUCCESS);
}

const finish = command("finish", fc.record({ target }), (stage, { target: aim }) =>
  succeed(stage, stage.choose(aim, stage.hasDueWork)),
);

/** A process dies after it has begun, and its lease is swept. */
const crash = command(
  "crash",
  fc.record({ target, starts: fc.constantFrom(1, 2, 9) }),
  async (stage, { target: aim, starts }) => {
    const stranger = await take(stage, stage.choose(aim, stage.hasDueWork), 20);
    await report(stage, stranger, { ...SUCCESS, deeds: ["leave"], intent: "keep", starts });
    stage.clock.advance(20);
    await stage.lineup.call("sweep", PATIENT);
  },
);

/** A guarded run stops after its starts were written, and is leased again. */
const interrupt = command(
  "interrupt",
  fc.record({ target, starts: fc.constantFrom(1, 2, 9) }),
  async (stage, { target: aim, starts }) => {
    const id = stage.choose(aim, stage.hasDueWork);
    const stranger = await take(stage, id, 20);
    await report(stage, stranger, { ...SUCCESS, deeds: ["leave"], intent: "keep", starts });
    await stage.lineup.call("fail", id, { code: "STOP", message: "enough" });
    const all = { filter: {}, ceiling: 100, perSecond: null, withCancelled: true, dryRun: false };
    await stage.lineup.call("redrive", id, { ...all, by: "ann", why: null });
  },
);

/** A worker renews leases of a batch that is being cancelled: with `now` that has no effect. */
const cling = command(
  "cling",
  fc.record({ target, mode: fc.constantFrom("now", "drain"), ms: fc.constantFrom(20, 10) }),
  async (stage, { target: aim, mode, ms }) => {
    const id = stage.choose(aim, stage.hasDueWork);
    const stranger = await take(stage, id, 20);
    await stage.lineup.call("cancel", id, { mode, by: "ann", why: null });
    const leases = stranger.held.map((held) => referTo(held.lease));
    await stage.lineup.call("renew", stranger.number, leases, 60);
    stage.clock.advance(ms);
    await stage.lineup.call("sweep", PATIENT);
  },
);

const die = command("die", fc.record({ worker }), async (stage, { worker: nth }) =>
  stage.worker(nth).die(),
);

const renew = command(
  "renew",
  fc.record({ worker, leaseMs, ghosts: onceIn(3) }),
  (stage, { worker: nth, leaseMs: ms, ghosts }) => {
    const { held, graveyard, number } = stage.worker(nth);
    const leases = [...held, ...(ghosts ? graveyard.slice(-3) : [])].map((one) => one.lease);
    return stage.lineup.call("renew", number, leases.map(referTo), ms);
  },
);

const referTo = ({ batch, step, chunk, fence }: LeasedChunk): LeaseRef => ({
  batch,
  step,
  chunk,
  fence,
});

const claimContents = command(
  "claimContents",
  fc.record({
    worker,
    target,
    nth: fc.nat(9),
    ghost: onceIn(6),
    indexes: fc.uniqueArray(fc.nat(4), { minLength: 1, maxLength: 3 }),
    shift: fc.nat(2),
  }),
  async (stage, { worker: n, target: aim, nth, ghost, indexes, shift }) => {
    const claimer = stage.worker(n);
    if (claimer.held.length === 0) {
      const limits = { only: true, itemsMax: 8, chunksMax: 2, leaseMs: 60, slots: 2 };
      const request = stage.requestOf(stage.choose(aim, stage.hasDueWork), claimer.number, limits);
      const answer = await stage.lineup.call("work", [], request);
      if (answer !== null) claimer.take(answer, [], stage.clock.monotonicMs());
    }
    const from = ghost ? claimer.graveyard : claimer.held;
    const one = from[nth % Math.max(1, from.length)];
    if (one === undefined) return;
    const { start, end } = one.lease;
    const places = new Set(indexes.map((index) => index % (end - start)));
    const contents = Array.from(places, (index) => ({
      index,
      content: CONTENTS[(start + index + shift) % CONTENTS.length]!,
    }));
    const answer = await stage.lineup.call("claimContents", referTo(one.lease), contents);
    const claimed = stage.claims.get(nameLease(one.lease)) ?? new Map<number, string>();
    stage.claims.set(nameLease(one.lease), claimed);
    for (const [at, claim] of (answer ?? []).entries()) {
      const { index, content } = contents[at]!;
      if (claim === "claimed") claimed.set(index, content);
    }
  },
);

const beat = command(
  "beat",
  fc.record({
    worker,
    serves: fc.subarray(PIPELINES.flatMap((pipeline) => VERSIONS.map((v) => [pipeline, v]))),
    only: fc.option(target, { freq: 3 }),
    forMs: fc.constantFrom(10 ** 9, 300, 30),
    /** The other workers are gone. */
    alone: flag,
  }),
  async (stage, { worker: nth, serves, only, forMs, alone }) => {
    if (alone)
      for (const { number } of stage.workers) await stage.lineup.call("beat", number, [], 1);
    const batch = only === null ? {} : { batch: stage.choose(only, isRunning) };
    const served = serves.map(([pipeline, version]) => ({
      pipeline: pipeline!,
      version: version!,
      ...batch,
    }));
    await stage.lineup.call("beat", stage.worker(nth).number, served, forMs);
  },
);

const hire = command("hire", fc.constant({}), (stage) => stage.hire(), "nothing");

const readStops = command("readStops", fc.constant({}), (stage) =>
  stage.lineup.call("readStops", [...stage.ids, "b-unknown"]),
);

/** Nothing is given up because a worker is missing. */
const PATIENT: SweepPolicy = {
  watchDelays: { steps: [], elseMs: 60_000, stallMs: 60_000 },
  stallsMax: LONG_MS,
  orphanMs: LONG_MS,
  staleMs: LONG_MS,
};

export const BRISK: SweepPolicy = {
  watchDelays: { steps: [{ below: 4, delayMs: 20 }], elseMs: 50, stallMs: 30 },
  stallsMax: 1,
  orphanMs: 100,
  staleMs: 400,
};

const policy = fc.oneof(
  fc.constant(PATIENT),
  fc.constant(BRISK),
  fc.record({
    watchDelays: fc.constantFrom(PATIENT.watchDelays, BRISK.watchDelays),
    stallsMax: fc.constantFrom(0, 2),
    orphanMs: fc.constantFrom(100, 1_000),
    staleMs: fc.constantFrom(1_000, LONG_MS),
  }),
);

const sweep = command("sweep", fc.record({ policy }), (stage, { policy: drawn }) =>
  stage.lineup.call("sweep", drawn),
);

/** Time passes with a sweep after each part: work without progress is given up. */
const linger = command(
  "linger",
  fc.record({ policy, rounds: fc.integer({ min: 1, max: 5 }), ms: fc.constantFrom(30, 60, 400) }),
  async (stage, { policy: drawn, rounds, ms }) => {
    for (let round = 0; round < rounds; round++) {
      stage.clock.advance(ms);
      await stage.lineup.call("sweep", drawn);
    }
  },
);

const advance = command(
  "advance",
  fc.record({ ms: fc.constantFrom(5, 1, 10, 20, 25, 60, 250, 60_000) }),
  async ({ clock, lineup }, { ms }) => {
    clock.advance(ms);
    lineup.story.push(`${ms} ms pass`);
  },
  "nothing",
);

const jump = command(
  "jump",
  fc.record({ ms: fc.constantFrom(60, -60, -5_000, 700, 10 ** 8) }),
  async ({ clock, lineup }, { ms }) => {
    clock.jumpWall(ms);
    lineup.story.push(`the wall clock jumps by ${ms} ms`);
  },
  "nothing",
);

export const working = {
  work,
  rush,
  stumble,
  finish,
  crash,
  interrupt,
  cling,
  haunt,
  die,
  renew,
  claimContents,
  beat,
  hire,
  readStops,
  sweep,
  linger,
  advance,
  jump,
};
