/** Commands of operators: cancel, pause, resume, move, redrive, discard, policies. */
import fc from "fast-check";
import type { PauseScope } from "../../src/ports/store/operator-store.ts";
import { command, type Command, seldom, times, which } from "./command.ts";
import { LANES, PIPELINES, type Stage } from "./stage.ts";

const mode = fc.constantFrom("drain", "now");

const cancel = command(
  "cancel",
  fc.record({ which, mode, really: fc.nat(2).map((n) => n === 0) }),
  async (stage, pair, args) => {
    if (args.really) await stage.cancel(pair, stage.pick(args.which).asked.id, args.mode);
  },
);

const scope = fc.record({
  scope: fc.constantFrom("batch", "batch", "lane", "pipeline"),
  which,
});

function nameScope(stage: Stage, drawn: { scope: PauseScope["scope"]; which: number }): PauseScope {
  const { asked } = stage.pick(drawn.which);
  const name = { batch: asked.id, lane: asked.lane, pipeline: asked.pipeline }[drawn.scope];
  return { scope: drawn.scope, name };
}

const pause = command("pause", fc.record({ scope, mode }), (stage, pair, args) =>
  stage.pause(pair, nameScope(stage, args.scope), args.mode),
);

const resume = command("resume", fc.record({ scope }), (stage, pair, args) =>
  stage.resume(pair, nameScope(stage, args.scope)),
);

/** Resumes what is paused: otherwise everything would soon be paused. */
const resumeAll = command("resumeAll", fc.constant({}), async (stage, pair) => {
  for (const name of LANES) await stage.resume(pair, { scope: "lane", name });
  for (const name of PIPELINES) await stage.resume(pair, { scope: "pipeline", name });
  for (const { asked } of stage.oracle.batches) {
    await stage.resume(pair, { scope: "batch", name: asked.id });
  }
});

const setPolicy = command(
  "setPolicy",
  fc.record({
    lane: fc.constantFrom(...LANES),
    policy: fc.constantFrom("block", "skip", "park"),
  }),
  (stage, pair, { lane, policy }) => stage.setLanePolicy(pair, lane, policy),
  "nothing",
);

const move = command(
  "move",
  fc.record({ which, to: fc.constantFrom("front", "back", "before"), other: which }),
  (stage, pair, { which: n, to, other }) => {
    const before = stage.pick(other).asked.id;
    return stage.move(pair, stage.pick(n).asked.id, to === "before" ? { before } : { to });
  },
);

const filter = fc.constantFrom(
  {},
  {},
  { step: 0 },
  { step: 1 },
  { items: [0, 2, 4] },
  { keys: ["key 1", "key 3"] },
  { classes: ["transient"] as const },
  { classes: ["permanent"] as const, codes: ["E"] },
  { codes: ["POISON"] },
);

const redrive = command(
  "redrive",
  fc.record({
    which,
    filter,
    ceiling: fc.constantFrom(1, 2, 100, 100),
    perSecond: fc.constantFrom(null, null, 50, 300),
    withCancelled: fc.boolean(),
    dryRun: seldom,
  }),
  (stage, pair, { which: n, ...asked }) => stage.redrive(pair, stage.pick(n).asked.id, asked),
);

const discard = command("discard", fc.record({ which, filter }), (stage, pair, args) =>
  stage.discard(pair, stage.pick(args.which).asked.id, args.filter),
);

const readStops = command("readStops", fc.constant({}), (stage, pair) => stage.readStops(pair));

export const operatorCommands: fc.Arbitrary<Command>[] = [
  times(2, cancel, pause, resume, move),
  times(1, resumeAll, setPolicy, discard, readStops),
  times(4, redrive),
].flat();
