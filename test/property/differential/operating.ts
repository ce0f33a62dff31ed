/** Commands of operators, readers of events and observers. */
import fc from "fast-check";
import { type Batch, hasLeases } from "../../../src/adapters/memory/state.ts";
import { BATCH_STATES } from "../../../src/core/batch/batch.ts";
import type { PauseScope } from "../../../src/ports/store/operator-store.ts";
import {
  act,
  command,
  hasLetters,
  isOver,
  isUnfinished,
  LANES,
  onceIn,
  READERS,
  type Stage,
  type Target,
  target,
} from "./stage.ts";

const flag = fc.boolean();
const mode = fc.constantFrom("drain", "now");

const cancel = command(
  "cancel",
  fc.record({ target, mode, act, busy: flag }),
  (stage, { target: aim, mode: how, act: by, busy }) => {
    const id = stage.choose(aim, busy ? hasLeases : isUnfinished);
    return stage.lineup.call("cancel", id, { mode: how, ...by });
  },
);

const scope = fc.record({
  scope: fc.constantFrom("batch", "batch", "lane", "pipeline"),
  target,
});

function nameScope(
  stage: Stage,
  drawn: { readonly scope: PauseScope["scope"]; readonly target: Target },
): PauseScope {
  const id = stage.choose(drawn.target, isUnfinished);
  const { lane, pipeline } = stage.find(id)?.submission ?? { lane: "a", pipeline: "p" };
  return { scope: drawn.scope, name: { batch: id, lane, pipeline }[drawn.scope] };
}

const pause = command(
  "pause",
  fc.record({ scope, mode, act }),
  (stage, { scope: drawn, mode: how, act: by }) =>
    stage.lineup.call("pause", { ...nameScope(stage, drawn), mode: how, ...by }),
);

const resume = command("resume", fc.record({ scope, act }), (stage, { scope: drawn, act: by }) =>
  stage.lineup.call("resume", nameScope(stage, drawn), by),
);

/** Resumes what is paused: otherwise everything would soon be paused. */
export async function resumeEverything(stage: Stage): Promise<void> {
  const by = { by: "ann", why: null };
  const pauses = Array.from(stage.lineup.reference.state.pauses.values());
  for (const { scope: kind, name } of pauses) {
    await stage.lineup.call("resume", { scope: kind, name }, by);
  }
  for (const { submission } of stage.listBatches(({ parked }) => parked !== null)) {
    await stage.lineup.call("resume", { scope: "batch", name: submission.id }, by);
  }
}

const resumeAll = command("resumeAll", fc.constant({}), resumeEverything);

const setPolicy = command(
  "setLanePolicy",
  fc.record({ lane: fc.constantFrom(...LANES), policy: fc.constantFrom("skip", "park", "block") }),
  (stage, { lane, policy }) => stage.lineup.call("setLanePolicy", lane, policy),
  "nothing",
);

const move = command(
  "moveInLane",
  fc.record({ target, to: fc.constantFrom("front", "back", "before"), other: target, act }),
  (stage, { target: aim, to, other, act: by }) => {
    const waits = ({ active, state }: { active: boolean; state: string }): boolean =>
      !active && (state === "submitted" || state === "slicing" || state === "ready");
    const before = stage.choose(other, waits);
    const where = to === "before" ? { before } : { to };
    return stage.lineup.call("moveInLane", stage.choose(aim, waits), where, by);
  },
);

const filter = fc.constantFrom(
  {},
  {},
  {},
  {},
  {},
  {},
  { step: 0 },
  { step: 1 },
  { items: [0, 2, 4] },
  { keys: ["key 1 😀", "key 3 😀"] },
  { classes: ["transient" as const] },
  { classes: ["permanent" as const], codes: ["E"] },
  { codes: ["POISON", "STALLED"] },
);

/** A batch with dead letters that can be edited or discarded. */
const hasOpenLetters = (batch: Batch): boolean =>
  !batch.pruned && batch.steps.some(({ counts, discarded }) => counts.failed > discarded.size);

const isStopped = ({ state }: Batch): boolean =>
  state === "failed" || state === "cancelled" || state === "expired";

const redrive = command(
  "redrive",
  fc.record({
    target,
    /** Rather a batch that was stopped early than one with dead letters. */
    stopped: onceIn(4),
    filter,
    ceiling: fc.constantFrom(100, 100, 2, 1, 0),
    perSecond: fc.constantFrom(null, null, 50, 7, 0.5),
    withCancelled: flag,
    dryRun: onceIn(5),
    act,
  }),
  (stage, { target: aim, stopped, act: by, ...asked }) => {
    const { withCancelled } = asked;
    const wish = (one: Batch): boolean =>
      stopped ? isOver(one) : hasOpenLetters(one) && (withCancelled || !isStopped(one));
    return stage.lineup.call("redrive", stage.choose(aim, wish), { ...asked, ...by });
  },
);

const edit = command(
  "editDeadLetter",
  fc.record({
    target,
    nth: fc.nat(9),
    step: onceIn(6),
    value: fc.constantFrom('{"a":1}', "2"),
    act,
  }),
  async (stage, { target: aim, nth, step: astray, value, act: by }) => {
    const id = stage.choose(aim, hasLetters);
    const letters = listLetters(stage, id);
    const { step, item } = letters[nth % Math.max(1, letters.length)] ?? {
      step: 0,
      item: nth,
    };
    const request = { step: step + (astray ? 1 : 0), item, value, ...by };
    await stage.lineup.call("editDeadLetter", id, request);
  },
);

function listLetters(stage: Stage, id: string): { step: number; item: number }[] {
  return (stage.find(id)?.steps ?? []).flatMap(({ chunks }, step) =>
    chunks.flatMap(({ tracked, start }) =>
      [...tracked.values()]
        .filter(({ dead }) => dead)
        .map(({ index }) => ({ step, item: start + index })),
    ),
  );
}

const discard = command(
  "discardDeadLetters",
  // Rarely all of them: nothing would be left to redrive.
  fc.record({ target, filter: fc.oneof(fc.constant({ items: [1, 4, 7] }), filter), act }),
  (stage, { target: aim, filter: which, act: by }) =>
    stage.lineup.call("discardDeadLetters", stage.choose(aim, hasLetters), {
      filter: which,
      ...by,
    }),
);

/** An age that every ended batch has, even one that ended in this millisecond. */
const ANY_AGE_MS = -1;

const prune = command(
  "prune",
  fc.record({
    scratchAgeMs: fc.constantFrom(ANY_AGE_MS, 100, null),
    evidenceAgeMs: fc.constantFrom(null, null, ANY_AGE_MS, 200),
    only: fc.option(target, { freq: 1 }),
    dryRun: onceIn(4),
  }),
  (stage, { only, ...policy }) => {
    const batch = only === null ? {} : { batch: stage.choose(only, isOver) };
    return stage.lineup.call("prune", { ...policy, ...batch });
  },
);

const reader = fc.constantFrom(...READERS);

const follow = command(
  "follow",
  fc.record({
    reader,
    does: fc.constantFrom("start", "start now", "save", "save all", "forget", "look"),
    nth: fc.nat(40),
  }),
  (stage, { reader: name, does, nth }) => {
    const { records, lastPosition } = stage.lineup.reference.state;
    const { lineup } = stage;
    switch (does) {
      case "start":
        return lineup.call("startReader", name, "beginning");
      case "start now":
        return lineup.call("startReader", name, "now");
      case "save":
        return lineup.call("savePosition", name, records[nth % records.length]?.position ?? 0);
      case "save all":
        return lineup.call("savePosition", name, lastPosition);
      case "forget":
        return lineup.call("forgetReader", name);
      case "look":
        return lineup.call("readPosition", name);
    }
  },
);

/** A reader gives up an event, maybe for the second time. */
const giveUp = command(
  "giveUp",
  fc.record({ reader, nth: fc.nat(20), attempts: fc.integer({ min: 1, max: 3 }) }),
  async (stage, { reader: name, nth, attempts }) => {
    const { records } = stage.lineup.reference.state;
    const record = records[nth % Math.max(1, records.length)];
    if (record === undefined) return;
    const { position, batch, seq, type } = record;
    const event = { position, event: `${batch}/${seq}`, batch, type };
    const cause = { attempts, code: `E${attempts}`, message: "no answer" };
    await stage.lineup.call("keepUndelivered", { reader: name, ...event, ...cause });
  },
);

const dropUndelivered = command(
  "dropUndelivered",
  fc.record({ nth: fc.nat(9) }),
  (stage, { nth }) => {
    const { undelivered } = stage.lineup.reference.state;
    return stage.lineup.call(
      "dropUndelivered",
      undelivered[nth % Math.max(1, undelivered.length)]?.id ?? 99,
    );
  },
);

/** Pages of everything, from the middle. */
const leaf = command(
  "leaf",
  fc.record({
    target,
    step: fc.nat(2),
    after: fc.integer({ min: -1, max: 12 }),
    limit: fc.integer({ min: 1, max: 4 }),
    sinceDrive: fc.integer({ min: 1, max: 4 }),
    filter,
    states: fc.subarray([...BATCH_STATES], { minLength: 1 }),
  }),
  async (stage, { target: aim, step, after, limit, sinceDrive, filter: which, states }) => {
    const { lineup } = stage;
    const id = stage.choose(aim, hasLetters);
    const page = { step, afterItem: after, limit };
    await lineup.call("readResults", id, { ...page, sinceDrive });
    await lineup.call("readDeadLetters", id, { ...page, filter: which });
    await lineup.call("readManifests", id, step, Math.max(0, after), after + limit);
    await lineup.call("findItem", id, step, after);
    await lineup.call("readRecords", id, after, limit);
    await lineup.call("readRecords", null, after * 3, limit);
    await lineup.call("readLedger", id, after, limit);
    await lineup.call("readWaiting", id, limit);
    await lineup.call("listUndelivered", { afterId: after, limit });
    await lineup.call("listUnsliced", "p", limit);
    const { pipeline, lane } = stage.find(id)?.submission ?? { pipeline: "p", lane: "a" };
    await lineup.call("listBatches", { pipeline, lane, states, limit });
  },
);

/** Sets or clears a cap, a weight or a rate. */
const setLimit = command(
  "setLimit",
  fc.record({
    scope,
    kind: fc.constantFrom("cap", "cap", "cap", "weight", "rate"),
    cap: fc.constantFrom(1, 2, 5, null),
    weight: fc.constantFrom(3, 0.25, null),
    rate: fc.constantFrom({ perSecond: 5, burst: 10 }, { burst: 1, perSecond: 0.5 }, null),
    act,
  }),
  (stage, { scope: drawn, kind, cap, weight, rate, act: by }) => {
    const { scope: where, name } = nameScope(stage, drawn);
    const { lineup } = stage;
    if (kind === "cap")
      return lineup.call("setLimit", { kind, scope: where, name, value: cap }, by);
    if (kind === "rate") {
      return lineup.call("setLimit", { kind, scope: "rate", name: "portal", value: rate }, by);
    }
    const batch = stage.find(stage.choose(drawn.target, isUnfinished));
    const tenant = `${batch?.submission.pipeline ?? "p"}/${batch?.tenant ?? "a"}`;
    return lineup.call("setLimit", { kind, scope: "tenant", name: tenant, value: weight }, by);
  },
);

export const operating = {
  cancel,
  pause,
  resume,
  resumeAll,
  setPolicy,
  move,
  redrive,
  edit,
  discard,
  prune,
  follow,
  giveUp,
  dropUndelivered,
  leaf,
  setLimit,
};
