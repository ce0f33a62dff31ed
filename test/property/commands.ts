/** Every verb of the store as a command with small arguments, for any interleaving of them. */
import fc from "fast-check";
import type { PlanPart } from "../../src/ports/conducting.ts";
import type { LeaseRequest } from "../../src/ports/working.ts";
import type { Pair } from "./scene.ts";
import { DEED_MAX, MEMORIES, makeReport, SimulatedWorker } from "./simulated-worker.ts";
import { PLANNERS, type Stage, WORKERS } from "./stage.ts";

const BATCHES_MAX = 4;
const LEASES_MS = [10, 20, 50] as const;

type Command = fc.AsyncCommand<Stage, Pair>;

function command<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (stage: Stage, pair: Pair, args: Args) => Promise<void>,
  needs: "batch" | "room" | "nothing" = "batch",
): fc.Arbitrary<Command> {
  return args.map((drawn) => ({
    check: ({ oracle: { batches } }) =>
      needs === "room" ? batches.length < BATCHES_MAX : needs === "nothing" || batches.length > 0,
    run: (stage, pair) => run(stage, pair, drawn),
    toString: () => `${name}(${JSON.stringify(drawn)})`,
  }));
}

const which = fc.nat(BATCHES_MAX - 1);
const worker = fc.nat(WORKERS - 1);
const leaseMs = fc.constantFrom(...LEASES_MS);
const flag = fc.boolean();
/** True once in a while. */
const seldom = fc.nat(7).map((n) => n === 0);

const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 2 });

const submission = fc.record({
  pipeline: fc.constantFrom("p", "p", "p", "q"),
  version: fc.constantFrom("1", "1", "2"),
  key: fc.constantFrom(null, null, "k1", "k2"),
  input: fc.constantFrom("a", "b", null),
  resume: flag,
  open: flag,
  sealWithinMs: fc.constantFrom(40, 200, 100_000),
});

async function submit(
  stage: Stage,
  pair: Pair,
  asked: { readonly input: string | null; readonly repeat: boolean } & Record<string, unknown>,
): Promise<string> {
  const { repeat, ...rest } = asked;
  const { batches } = stage.oracle;
  const id = `batch-${repeat && batches.length > 0 ? batches.length - 1 : batches.length}`;
  const settings = { chunkSize: 10, strict: false };
  const inputHash = `hash of ${asked.input}`;
  await stage.submit(pair, { ...rest, id, lane: "main", inputHash, settings } as never);
  return id;
}

/** One item in six has no key: it is nobody's duplicate. */
const nameKey = (n: number): string | null => (n % 6 === 5 ? null : `key ${n % 12}`);

function makePart(
  stage: Stage,
  batch: string,
  afterChunks: number,
  shape: { readonly sizes: readonly number[]; readonly keys: number | null },
): PlanPart {
  stage.parts += 1;
  let next = shape.keys ?? 0;
  const chunks = shape.sizes.map((items, n) => ({
    items,
    locator: n === 0 ? null : `at ${n}`,
    manifest: n === 0 ? new Uint8Array([stage.parts]) : null,
    keys: shape.keys === null ? null : Array.from({ length: items }, () => nameKey(next++)),
  }));
  const part = `part ${stage.parts}`;
  const fence = stage.oracle.find(batch).sliceFence;
  return { batch, step: 0, afterChunks, chunks, cursor: `after ${part}`, fence, part };
}

const launch = command(
  "launch",
  fc.record({ submission, sizes, more: fc.oneof(fc.constant([]), sizes) }),
  async (stage, pair, { submission: asked, sizes: first, more }) => {
    const unlike = { ...asked, key: null, resume: false, repeat: false };
    const id = await submit(stage, pair, unlike);
    await stage.startSlicing(pair, id, false);
    await stage.plan(pair, makePart(stage, id, 0, { sizes: first, keys: null }));
    if (more.length > 0) {
      await stage.plan(pair, makePart(stage, id, first.length, { sizes: more, keys: null }));
    }
    await stage.finishSlicing(pair, id, first.length + more.length);
  },
  "room",
);

const submitOne = command(
  "submit",
  fc.record({ submission, repeat: seldom }),
  async (stage, pair, { submission: asked, repeat }) =>
    void (await submit(stage, pair, { ...asked, repeat })),
  "room",
);

const startSlicing = command(
  "startSlicing",
  fc.record({ which, afresh: seldom }),
  (stage, pair, args) => stage.startSlicing(pair, stage.pick(args.which).asked.id, args.afresh),
);

const plan = command(
  "plan",
  fc.record({
    which,
    planner: fc.nat(PLANNERS - 1),
    /** As the planner believes, or as it is. */
    informed: flag,
    sizes: fc.oneof({ weight: 9, arbitrary: sizes }, { weight: 1, arbitrary: fc.constant([]) }),
    keys: fc.option(fc.nat(11), { freq: 2 }),
  }),
  async (stage, pair, args) => {
    const { asked, chunks } = stage.pick(args.which);
    const planner = stage.planners[args.planner]!;
    const believed = planner.chunks.get(asked.id) ?? 0;
    const part = makePart(stage, asked.id, args.informed ? chunks.length : believed, args);
    const answer = await stage.plan(pair, part);
    planner.last = part;
    if (answer.kind === "planned") planner.chunks.set(asked.id, answer.chunks);
    if (answer.kind === "moved_on") planner.chunks.set(asked.id, answer.batch.chunks);
  },
);

/** The reply was lost: the same part comes again, maybe much later. */
const planAgain = command(
  "planAgain",
  fc.record({ planner: fc.nat(PLANNERS - 1) }),
  async (stage, pair, { planner }) => {
    const last = stage.planners[planner]!.last;
    if (last !== null && last.chunks.length > 0) await stage.plan(pair, last);
  },
);

/** A slicer that cannot go on in the middle begins anew, with the same keys. */
const reslice = command(
  "reslice",
  fc.record({ submission, sizes, keys: fc.nat(11), afresh: flag }),
  async (stage, pair, { submission: asked, sizes: shape, keys, afresh }) => {
    const id = await submit(stage, pair, { ...asked, key: null, resume: false, repeat: false });
    for (let round = 0; round < 2; round++) {
      await stage.startSlicing(pair, id, afresh);
      const { length } = stage.oracle.find(id).chunks;
      await stage.plan(pair, makePart(stage, id, length, { sizes: shape, keys }));
    }
  },
  "room",
);

/** A small batch that its slicer runs itself; the reply may be lost and the act repeated. */
const runInline = command(
  "runInline",
  fc.record({ submission, items: fc.integer({ min: 1, max: 6 }), worker, leaseMs, repeat: seldom }),
  async (stage, pair, { submission: asked, items, worker: n, leaseMs: ms, repeat }) => {
    const id = await submit(stage, pair, { ...asked, key: null, resume: false, repeat: false });
    await stage.startSlicing(pair, id, false);
    const slicer = stage.workers[n]!;
    const { pipeline, version } = asked;
    const limits = { batch: null, itemsMax: 100, chunksMax: 1, leaseMs: ms };
    const request = { worker: slicer.number, pipeline, versions: [version], ...limits };
    const part = makePart(stage, id, 0, { sizes: [items], keys: null });
    const answer = await stage.planInline(pair, part, request);
    if (repeat) await stage.planInline(pair, part, request);
    else if (answer.kind === "leased") slicer.accept(answer.chunk, stage.clock.monotonicMs());
  },
  "room",
);

const finishSlicing = command(
  "finishSlicing",
  fc.record({ which, off: fc.constantFrom(0, 0, 0, 1, -1), late: fc.constantFrom(0, 0, 0, 1) }),
  (stage, pair, { which: n, off, late }) => {
    const { asked, chunks } = stage.pick(n);
    return stage.finishSlicing(pair, asked.id, chunks.length + off, late);
  },
);

const seal = command("seal", fc.record({ which }), (stage, pair, args) =>
  stage.seal(pair, stage.pick(args.which).asked.id),
);

const fail = command("fail", fc.record({ which, really: seldom }), async (stage, pair, args) => {
  if (args.really) await stage.fail(pair, stage.pick(args.which).asked.id);
});

const deeds = fc.record({
  deeds: fc.array(fc.nat(DEED_MAX), { minLength: 1, maxLength: 6 }),
  intent: fc.constantFrom("keep", "keep", "yield"),
  memory: fc.constantFrom(MEMORIES[0], MEMORIES[0], ...MEMORIES),
});

const request = fc.record({
  pipeline: fc.constantFrom("p", "p", "p", "q"),
  versions: fc.constantFrom(["1"], ["2"], ["1", "2"], ["2", "1"], ["1", "1"]),
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
            batch: lease.only === null ? null : stage.pick(lease.only).asked.id,
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

/** Somebody who lost his lease, or never had it, reports all the same. */
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

/** A process that dies on what it has just begun, and is found. */
const crash = command(
  "crash",
  fc.record({ which, starts: fc.constantFrom("first", "proper", "all") }),
  async (stage, pair, { which: n, starts }) => {
    const { asked, chunks } = stage.pick(n);
    const { id, pipeline, version } = asked;
    const worker = new SimulatedWorker(WORKERS + 1);
    const request = { worker: worker.number, pipeline, versions: [version], batch: id };
    const limits = { itemsMax: 1, chunksMax: 1, leaseMs: LEASES_MS[0] };
    const now = stage.clock.monotonicMs();
    worker.take(await stage.work(pair, [], { ...request, ...limits }), [], now);
    const [held] = worker.held;
    if (held === undefined || chunks.length === 0) return;
    if (held.lease.careful) {
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
    return stage.renew(pair, leases, leaseMs);
  },
);

const sweep = command("sweep", fc.constant({}), (stage, pair) => stage.sweep(pair));

const advance = command(
  "advance",
  fc.record({ ms: fc.constantFrom(1, 4, 5, 5, 10, 10, 20, 50) }),
  async ({ clock }, _pair, { ms }) => clock.advance(ms),
);

const jump = command(
  "jump",
  fc.record({ ms: fc.constantFrom(-5_000, -60, 60, 150) }),
  async ({ clock }, _pair, { ms }) => clock.jumpWall(ms),
);

const claim = command(
  "claim",
  fc.record({
    duty: fc.constantFrom("slice", "relay"),
    worker: fc.integer({ min: 1, max: WORKERS }),
    forMs: fc.constantFrom(...LEASES_MS),
    giveUp: seldom,
  }),
  (stage, pair, { duty, worker, forMs, giveUp }) =>
    giveUp ? stage.unclaim(pair, duty, worker) : stage.claim(pair, duty, worker, forMs),
  "nothing",
);

const times = (count: number, ...of: fc.Arbitrary<Command>[]): fc.Arbitrary<Command>[] =>
  Array.from({ length: count }, () => of).flat();

/** By weight: what moves items is drawn most. */
export const commands: fc.Arbitrary<Command>[] = [
  times(3, launch),
  times(1, submitOne, startSlicing, reslice, planAgain, finishSlicing, seal, fail),
  times(2, plan, sweep, runInline),
  times(14, work),
  times(4, crash, advance),
  times(3, haunt),
  times(1, die, renew, jump, claim),
].flat();
