/** Every store method as a command with small arguments, for any interleaving of them. */
import fc from "fast-check";
import type { PlanPart, Submission } from "../../src/ports/store/conductor-store.ts";
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
import { operatorCommands } from "./operator-commands.ts";
import { stepOf } from "./oracle-batch.ts";
import type { Pair } from "./scene.ts";
import { LANES, PLANNERS, type Stage, WORKERS } from "./stage.ts";
import { workerCommands } from "./worker-commands.ts";
import { UNCAPPED } from "./simulated-worker.ts";

const flag = fc.boolean();

const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 2 });

const step = fc.record({
  maxRedrives: fc.constantFrom(0, 0, 1, 2),
  carries: flag,
  budget: fc.constantFrom(
    null,
    null,
    null,
    { any: { count: 2 } },
    { any: { percent: 50 } },
    { transient: { count: 0 } },
  ),
});

const submission = fc.record({
  lane: fc.constantFrom(...LANES),
  steps: fc.oneof(
    { weight: 2, arbitrary: fc.tuple(step) },
    { weight: 1, arbitrary: fc.tuple(step, step) },
  ),
  deadlineInMs: fc.constantFrom(null, null, null, null, 30, 150),
  pipeline: fc.constantFrom("p", "p", "p", "q"),
  version: fc.constantFrom("1", "1", "2"),
  key: fc.constantFrom(null, null, "k1", "k2"),
  input: fc.constantFrom("a", "b", null),
  resume: flag,
  open: flag,
  sealWithinMs: fc.constantFrom(40, 200, 100_000),
});

type Asked = typeof submission extends fc.Arbitrary<infer T> ? T : never;

async function submit(
  stage: Stage,
  pair: Pair,
  asked: Asked & { readonly repeat: boolean },
): Promise<string> {
  const { repeat, steps, deadlineInMs, ...rest } = asked;
  const { batches } = stage.oracle;
  const id = `batch-${repeat && batches.length > 0 ? batches.length - 1 : batches.length}`;
  const named = steps.map((one, n) => ({ ...one, name: `step ${n}`, chunkSize: 10, canary: null }));
  const settings: Submission["settings"] = { strict: false, steps: named };
  const inputHash = `hash of ${asked.input}`;
  const deadlineAt = deadlineInMs === null ? null : stage.clock.wallMs() + deadlineInMs;
  await stage.submit(pair, { ...rest, id, deadlineAt, inputHash, settings });
  return id;
}

/** One item in six has no key, so it is never a duplicate. */
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
  const known = stage.oracle.find(batch);
  const { sliceFence: fence } = stepOf(known);
  const { step: at } = known;
  return { batch, step: at, afterChunks, chunks, cursor: `after ${part}`, fence, part };
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
    /** The planner's expectation, or the true state. */
    informed: flag,
    sizes: fc.oneof({ weight: 9, arbitrary: sizes }, { weight: 1, arbitrary: fc.constant([]) }),
    keys: fc.option(fc.nat(11), { freq: 2 }),
  }),
  async (stage, pair, args) => {
    const batch = stage.pick(args.which);
    const { asked } = batch;
    const { chunks } = stepOf(batch);
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

/** A slicer that cannot continue in the middle starts afresh, with the same keys. */
const reslice = command(
  "reslice",
  fc.record({ submission, sizes, keys: fc.nat(11), afresh: flag }),
  async (stage, pair, { submission: asked, sizes: shape, keys, afresh }) => {
    const id = await submit(stage, pair, { ...asked, key: null, resume: false, repeat: false });
    for (let round = 0; round < 2; round++) {
      await stage.startSlicing(pair, id, afresh);
      const { length } = stepOf(stage.oracle.find(id)).chunks;
      await stage.plan(pair, makePart(stage, id, length, { sizes: shape, keys }));
    }
  },
  "room",
);

/** A small batch that its slicer runs itself; the reply may be lost and the call repeated. */
const runInline = command(
  "runInline",
  fc.record({ submission, items: fc.integer({ min: 1, max: 6 }), worker, leaseMs, repeat: seldom }),
  async (stage, pair, { submission: asked, items, worker: n, leaseMs: ms, repeat }) => {
    const id = await submit(stage, pair, { ...asked, key: null, resume: false, repeat: false });
    await stage.startSlicing(pair, id, false);
    const slicer = stage.workers[n]!;
    const { pipeline, version } = asked;
    const limits = { step: 0, batch: null, itemsMax: 100, chunksMax: 1, leaseMs: ms, ...UNCAPPED };
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
    const batch = stage.pick(n);
    return stage.finishSlicing(pair, batch.asked.id, stepOf(batch).chunks.length + off, late);
  },
);

const seal = command("seal", fc.record({ which }), (stage, pair, args) =>
  stage.seal(pair, stage.pick(args.which).asked.id),
);

const fail = command("fail", fc.record({ which, really: seldom }), async (stage, pair, args) => {
  if (args.really) await stage.fail(pair, stage.pick(args.which).asked.id);
});

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
    task: fc.constantFrom("slice", "deliver"),
    worker: fc.integer({ min: 1, max: WORKERS }),
    forMs: fc.constantFrom(...LEASES_MS),
    giveUp: seldom,
  }),
  (stage, pair, { task, worker, forMs, giveUp }) =>
    giveUp ? stage.unclaim(pair, task, worker) : stage.claim(pair, task, worker, forMs),
  "nothing",
);

/** Plans a batch that is at its second step, so that it continues. */
const sliceNext = command(
  "sliceNext",
  fc.record({ which, sizes }),
  async (stage, pair, { which: n, sizes: shape }) => {
    const batch = stage.pick(n);
    const { id } = batch.asked;
    if (batch.state !== "slicing" && batch.state !== "submitted") return;
    await stage.startSlicing(pair, id, false);
    const { length } = stepOf(batch).chunks;
    await stage.plan(pair, makePart(stage, id, length, { sizes: shape, keys: null }));
    await stage.finishSlicing(pair, id, stepOf(batch).chunks.length);
  },
);

/** By weight: commands that move items are drawn most often. */
export const commands: fc.Arbitrary<Command>[] = [
  ...operatorCommands.map((one) => [one]),
  times(3, launch, sliceNext),
  times(1, submitOne, startSlicing, reslice, planAgain, finishSlicing, seal, fail),
  times(2, plan, sweep, runInline),
  ...workerCommands.map((one) => [one]),
  times(4, advance),
  times(1, jump, claim),
].flat();
