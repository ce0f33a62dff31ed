/** Commands of submitters, slicers and producers. */
import fc from "fast-check";
import type { StepSettings } from "../../../src/core/batch/step.ts";
import { nameSlicingTask, type PlanPart } from "../../../src/ports/store/conductor-store.ts";
import {
  command,
  isRunning,
  isUnfinished,
  isUnsliced,
  LANES,
  onceIn,
  PIPELINES,
  type Stage,
  target,
  VERSIONS,
  TOPICS,
} from "./stage.ts";

const flag = fc.boolean();

const step: fc.Arbitrary<Omit<StepSettings, "name">> = fc.record({
  chunkSize: fc.constantFrom(4, 2, 10),
  maxRedrives: fc.constantFrom(0, 0, 1, 2),
  carries: flag,
  // Most have neither, or few batches would live long enough to have dead letters.
  budget: fc.oneof(
    { weight: 5, arbitrary: fc.constant(null) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        { any: { count: 2 } },
        { any: { percent: 50 } },
        { permanent: { count: 0 }, unexpected: { percent: 10 } },
        { transient: { count: 0 } },
      ),
    },
  ),
  canary: fc.oneof(
    { weight: 5, arbitrary: fc.constant(null) },
    {
      weight: 1,
      arbitrary: fc.constantFrom({ items: 2, failuresMax: 0 }, { items: 5, failuresMax: 1 }),
    },
  ),
  errorsTopic: fc.constantFrom(null, null, ...TOPICS),
});

const common = {
  lane: fc.constantFrom(...LANES),
  pipeline: fc.constantFrom("p", ...PIPELINES),
  version: fc.constantFrom("1", ...VERSIONS),
  tenant: fc.constantFrom(null, null, "t", "zoë/1"),
  weight: fc.constantFrom(null, null, 1, 3, 0.5),
  caps: fc.constantFrom(
    ...Array<null>(6).fill(null),
    { batch: 1 },
    { lane: 2 },
    { pipeline: 3 },
    { batch: 2, pipeline: 2 },
  ),
  key: fc.constantFrom(null, null, null, "k1", "k2"),
  input: fc.constantFrom("1", "2", null),
  resume: onceIn(3),
  open: onceIn(3),
  strict: flag,
  sealWithinMs: fc.constantFrom(10 ** 6, 10 ** 6, 10 ** 6, 500, 50),
  deadlineInMs: fc.constantFrom(...Array<null>(8).fill(null), 20_000, 400, 40),
  /** Keeps a ledger of its items. */
  ledger: onceIn(2),
};

const submission = fc.record({
  ...common,
  steps: fc.oneof(
    { weight: 4, arbitrary: fc.tuple(step) },
    { weight: 2, arbitrary: fc.tuple(step, step) },
    { weight: 1, arbitrary: fc.tuple(step, step, step) },
  ),
});

/** Retention ages that some batches declare, in turn. The last one is longer than any run. */
const RETENTIONS = [
  null,
  { keepMs: 0 },
  { keepMs: 300, keepEvidenceMs: 1_000 },
  null,
  { keepEvidenceMs: 50 },
  { keepEvidenceMs: 0 },
  { keepMs: 10 ** 9 },
] as const;

type Asked = typeof submission extends fc.Arbitrary<infer T> ? T : never;

async function submit(stage: Stage, asked: Asked, id: string): Promise<void> {
  const { strict, steps, deadlineInMs, tenant, weight, caps, ledger, ...rest } = asked;
  const named = steps.map((one, at) => ({ ...one, name: `step ${at}` }));
  const deadlineAt = deadlineInMs === null ? null : stage.clock.wallMs() + deadlineInMs;
  const retention = RETENTIONS[stage.ids.length % RETENTIONS.length] ?? null;
  if (!stage.ids.includes(id)) stage.ids.push(id);
  await stage.lineup.call("submit", {
    ...rest,
    ...(tenant === null ? {} : { tenant }),
    id,
    inputHash: `hash of ${asked.input}`,
    deadlineAt,
    settings: {
      strict,
      steps: named,
      ...(weight === null ? {} : { weight }),
      ...(caps === null ? {} : { caps }),
      ...(ledger && { ledger: { item: true as const } }),
      ...(retention === null ? {} : { retention }),
    },
  });
}

const unlike = (asked: Asked): Asked => ({ ...asked, key: null, resume: false });
const nextId = ({ ids }: Stage): string => `b${ids.length + 1}`;

const submitOne = command(
  "submit",
  fc.record({ submission, again: onceIn(5), nth: fc.nat(9) }),
  (stage, { submission: asked, again, nth }) => {
    const known = stage.ids[nth % Math.max(1, stage.ids.length)];
    return submit(stage, asked, again && known !== undefined ? known : nextId(stage));
  },
  "room",
);

const shape = fc.record({
  /** The sizes of its chunks. */
  sizes: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 3 }),
  /** Which chunks have a manifest; the others have a locator. */
  owned: fc.constantFrom("all", "first", "none"),
  /** Items have keys from this one on, modulo a number; one in seven has none. */
  keys: fc.constantFrom(null, null, null, 0, 3, 9),
});

export type Shape = typeof shape extends fc.Arbitrary<infer T> ? T : never;

const KEYS = 24;
const WITHOUT_KEY = 7;

function makePart(stage: Stage, batch: string, { sizes, owned, keys }: Shape): PlanPart {
  const known = stage.find(batch);
  const at = known?.steps[known.step];
  const part = `part ${stage.parts.length + 1}`;
  let next = keys ?? 0;
  const nameKey = (): string | null => {
    next += 1;
    return next % WITHOUT_KEY === 0 ? null : `key ${next % KEYS}`;
  };
  const chunks = sizes.map((items, n) => {
    const owns = owned === "all" || (owned === "first" && n === 0);
    return {
      items,
      locator: owns ? null : `${part} at ${n}`,
      manifest: owns ? Buffer.from(`${part}/${n}`) : null,
      keys: keys === null ? null : Array.from({ length: items }, nameKey),
    };
  });
  return {
    batch,
    step: known?.step ?? 0,
    afterChunks: at?.chunks.length ?? 0,
    chunks,
    cursor: `after ${part}`,
    fence: at?.sliceFence ?? 0,
    part,
  };
}

async function plan(stage: Stage, part: PlanPart): Promise<void> {
  stage.parts.push(part);
  await stage.lineup.call("plan", part);
}

const plans = command(
  "plan",
  fc.record({
    target,
    shape,
    /** The mistake that it makes. */
    off: fc.constantFrom("nothing", "nothing", "nothing", "nothing", "fence", "chunks", "step"),
    empty: onceIn(12),
  }),
  async (stage, { target: aim, shape: drawn, off, empty }) => {
    const id = stage.choose(aim, (one) => one.state === "slicing" || isOpen(one));
    const part = makePart(stage, id, empty ? { ...drawn, sizes: [] } : drawn);
    const wrong = {
      nothing: {},
      fence: { fence: part.fence - 1 },
      chunks: { afterChunks: part.afterChunks - 1 },
      step: { step: part.step + 1 },
    };
    await plan(stage, { ...part, ...wrong[off] });
  },
);

const isOpen = ({
  submission: { open },
  sealed,
  state,
}: ReturnType<Stage["listBatches"]>[number]) =>
  open && !sealed && (state === "running" || state === "ready");

/**
 * The reply was lost, and the same part comes again. A store recognises the newest part of a step,
 * and an older one while it has its manifests. A slicer repeats no other.
 */
const planAgain = command("planAgain", fc.record({ nth: fc.nat(30) }), async (stage, { nth }) => {
  const known = stage.parts.filter((part, at) => {
    const batch = stage.find(part.batch);
    if (batch === undefined || batch.pruned || part.chunks.length === 0) return false;
    const newer = stage.parts.some((one, n) => n > at && one.batch === part.batch);
    const owned = part.chunks[0]!.manifest !== null;
    return owned || (!newer && batch.step === part.step);
  });
  const part = known[nth % Math.max(1, known.length)];
  if (part !== undefined) await stage.lineup.call("plan", part);
});

const startSlicing = command(
  "startSlicing",
  fc.record({ target, afresh: onceIn(3) }),
  (stage, { target: aim, afresh }) =>
    stage.lineup.call("startSlicing", stage.choose(aim, isUnsliced), afresh),
);

const finishSlicing = command(
  "finishSlicing",
  fc.record({ target, off: fc.constantFrom(0, 0, 0, 1, -1), late: fc.constantFrom(0, 0, 0, 1) }),
  async (stage, { target: aim, off, late }) => {
    await finish(
      stage,
      stage.choose(aim, ({ state }) => state === "slicing"),
      off,
      late,
    );
  },
);

async function finish(stage: Stage, id: string, off = 0, late = 0): Promise<void> {
  const batch = stage.find(id);
  const { chunks, sliceFence } = batch?.steps[batch.step] ?? { chunks: [], sliceFence: 0 };
  await stage.lineup.call("finishSlicing", id, chunks.length + off, sliceFence - late);
}

/** A complete slicing of a batch's current step. */
export async function slice(stage: Stage, id: string, shapes: readonly Shape[]): Promise<void> {
  await stage.lineup.call("startSlicing", id, false);
  for (const one of shapes) await plan(stage, makePart(stage, id, one));
  await finish(stage, id);
}

const shapes = fc.array(shape, { minLength: 1, maxLength: 2 });
const keyless = (drawn: readonly Shape[]): Shape[] => drawn.map((one) => ({ ...one, keys: null }));

/** A batch with a complete plan. */
export const launch = command(
  "launch",
  fc.record({ submission, shapes }),
  async (stage, { submission: asked, shapes: drawn }) => {
    const id = nextId(stage);
    await submit(stage, unlike(asked), id);
    await slice(stage, id, keyless(drawn));
  },
  "room",
);

/** A batch of several steps, each from the results of the one before, and most with a canary. */
const carried = step.map((one) => ({
  ...one,
  carries: true,
  canary: { items: 2, failuresMax: 9 },
}));

const launchLong = command(
  "launchLong",
  fc.record({
    submission: fc.record({
      ...common,
      steps: fc.oneof(fc.tuple(step, carried), fc.tuple(step, carried, step)),
    }),
    shapes,
  }),
  async (stage, { submission: asked, shapes: drawn }) => {
    const id = nextId(stage);
    await submit(stage, unlike(asked), id);
    await slice(stage, id, keyless(drawn));
  },
  "room",
);

const sliceOn = command(
  "sliceOn",
  fc.record({ target, shapes, nothing: onceIn(8) }),
  async (stage, { target: aim, shapes: drawn, nothing }) => {
    await slice(stage, stage.choose(aim, isUnsliced), nothing ? [] : keyless(drawn));
  },
);

/** A slicer that cannot continue in the middle starts afresh, with the same keys. */
const reslice = command(
  "reslice",
  fc.record({ submission, shape, afresh: flag }),
  async (stage, { submission: asked, shape: drawn, afresh }) => {
    const id = nextId(stage);
    await submit(stage, unlike(asked), id);
    for (let round = 0; round < 2; round++) {
      await stage.lineup.call("startSlicing", id, afresh);
      await plan(stage, makePart(stage, id, { ...drawn, keys: drawn.keys ?? 0 }));
    }
  },
  "room",
);

/** A small batch that its slicer runs itself; the reply may be lost and the call repeated. */
const runInline = command(
  "runInline",
  fc.record({
    submission,
    shape,
    worker: fc.nat(2),
    leaseMs: fc.constantFrom(20, 200),
    repeat: onceIn(6),
    late: onceIn(10),
  }),
  async (stage, { submission: asked, shape: drawn, worker: nth, leaseMs, repeat, late }) => {
    const id = nextId(stage);
    await submit(stage, unlike(asked), id);
    await stage.lineup.call("startSlicing", id, false);
    const slicer = stage.worker(nth);
    const limits = { only: false, itemsMax: 100, chunksMax: 1, leaseMs, slots: 2 };
    const request = stage.requestOf(id, slicer.number, limits);
    const part = makePart(stage, id, { ...drawn, sizes: drawn.sizes.slice(0, 1) });
    const sent = { ...part, fence: part.fence - (late ? 1 : 0) };
    stage.parts.push(sent);
    const answer = await stage.lineup.call("planInline", sent, request);
    if (repeat) await stage.lineup.call("planInline", sent, request);
    if (answer?.kind === "leased" && !repeat)
      slicer.accept(answer.chunk, stage.clock.monotonicMs());
  },
  "room",
);

const seal = command("seal", fc.record({ target }), (stage, { target: aim }) =>
  stage.lineup.call(
    "seal",
    stage.choose(aim, ({ sealed, state }) => !sealed && state === "running"),
  ),
);

const fail = command("fail", fc.record({ target }), (stage, { target: aim }) => {
  const reason = { code: "SOURCE", message: "it cannot be read: \u2400" };
  return stage.lineup.call("fail", stage.choose(aim, isUnfinished), reason);
});

const claim = command(
  "claim",
  fc.record({
    target,
    slicing: flag,
    worker: fc.integer({ min: 1, max: 3 }),
    forMs: fc.constantFrom(20, 300),
    giveUp: onceIn(4),
  }),
  (stage, { target: aim, slicing, worker, forMs, giveUp }) => {
    const task = slicing ? nameSlicingTask(stage.choose(aim, isUnsliced)) : "deliver";
    return giveUp
      ? stage.lineup.call("unclaim", task, worker)
      : stage.lineup.call("claim", task, worker, forMs);
  },
);

/** A producer adds to a running batch and sometimes seals it. */
const add = command(
  "add",
  fc.record({ target, shape, seals: onceIn(3) }),
  async (stage, { target: aim, shape: drawn, seals }) => {
    const id = stage.choose(aim, (one) => isOpen(one) && isRunning(one));
    await plan(stage, makePart(stage, id, drawn));
    if (seals) await stage.lineup.call("seal", id);
  },
);

export const conducting = {
  submitOne,
  launch,
  launchLong,
  sliceOn,
  plans,
  planAgain,
  startSlicing,
  finishSlicing,
  reslice,
  runInline,
  add,
  seal,
  fail,
  claim,
};
