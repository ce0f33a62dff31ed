/**
 * The themes of runs. A run that draws from all commands does a little of everything. A run with a
 * theme draws from few commands and so reaches states that need many of the same kind.
 */
import fc from "fast-check";
import { conducting } from "./conducting.ts";
import { limits } from "./limits.ts";
import { operating } from "./operating.ts";
import type { Command } from "./stage.ts";
import { topics } from "./topics.ts";
import { working } from "./working.ts";

/** By weight. */
const times = (count: number, ...of: fc.Arbitrary<Command>[]): fc.Arbitrary<Command>[] =>
  Array.from({ length: count }, () => of).flat();

const { submitOne, launch, launchLong, sliceOn, plans, planAgain, startSlicing } = conducting;
const { finishSlicing, reslice, runInline, add, seal, fail, claim } = conducting;
const { work, rush, stumble, finish, crash, haunt, die, renew, claimContents, beat } = working;
const { hire, interrupt, cling, readStops, sweep, linger, advance, jump } = working;
const { cancel, pause, resume, resumeAll, setPolicy, move, redrive, edit, discard } = operating;
const { prune, follow, giveUp, dropUndelivered, leaf, setLimit } = operating;
const { consume, refuse, readTopic, catchUp } = topics;
const { draw, closeBucket, openBucket, listClosed } = limits;

const everything = [
  ...times(8, work),
  ...times(3, launch, rush, stumble, redrive, advance),
  ...times(2, sliceOn, finish, crash, haunt, linger, sweep, plans, runInline, claimContents),
  ...Object.values(conducting),
  ...Object.values(working),
  ...Object.values(operating),
  ...Object.values(topics),
  ...Object.values(limits),
];

const slicing = [
  ...times(3, submitOne, plans, startSlicing, finishSlicing, reslice, runInline, sliceOn),
  ...times(2, planAgain, seal, add, claim, rush),
  ...times(1, launch, fail, cancel, sweep, linger, advance, jump, setPolicy, pause, resume),
];

const leases = [
  ...times(10, work),
  ...times(4, crash, haunt, claimContents, advance),
  ...times(2, launch, rush, stumble, die, sweep, redrive, sliceOn, interrupt),
  ...times(1, cancel, pause, renew, resumeAll, readStops, hire, finish, edit, leaf),
];

/** Operators stop what workers hold. */
const stops = [
  ...times(6, work),
  ...times(3, cancel, renew, advance, sweep, launch),
  ...times(2, interrupt, cling, redrive, haunt, readStops, pause),
  ...times(1, fail, crash, resume, resumeAll, sliceOn, rush),
];

const contents = [
  ...times(8, claimContents),
  ...times(4, work),
  ...times(2, launch, rush, advance, sweep),
  ...times(1, redrive, cancel, prune, die, crash, finish, sliceOn),
];

const stalls = [
  ...times(6, linger),
  ...times(3, beat, add, sweep, launch, stumble, advance),
  ...times(1, work, seal, sliceOn, submitOne, claim, redrive, jump, pause, resumeAll, finish),
  ...times(1, runInline, setPolicy, crash),
];

const lanes = [
  ...times(3, launch, submitOne, move, setPolicy, pause, resume, finish, linger),
  ...times(2, beat, sliceOn, redrive, sweep, resumeAll, stumble),
  ...times(1, cancel, fail, advance, jump, readStops, crash, leaf, prune),
];

const letters = [
  ...times(6, stumble, redrive),
  ...times(3, edit, finish, launch, sliceOn),
  ...times(2, advance, crash, linger, work),
  ...times(1, discard, cancel, prune, leaf, rush, pause, resumeAll, haunt, runInline, add, seal),
];

const steps = [
  ...times(5, finish, sliceOn, stumble),
  ...times(4, redrive),
  ...times(2, launchLong, advance),
  ...times(1, rush, work, crash, cancel, linger, edit, interrupt, leaf, seal, sweep),
];

const remains = [
  ...times(4, follow, giveUp, launch, finish, stumble),
  ...times(3, prune),
  ...times(1, cancel, redrive, dropUndelivered, leaf, submitOne, sliceOn, edit, advance, jump),
  ...times(1, claimContents, fail),
];

/** Tenants and caps. */
const shares = [
  ...times(12, work),
  ...times(4, launch, setLimit, renew, advance),
  ...times(2, sliceOn, rush, sweep, crash, runInline),
  ...times(1, finish, die, hire, haunt, cancel, pause, resumeAll, redrive, linger, leaf),
];

/** Messages are written, read, given up and deleted. */
const outlets = [
  ...times(5, work, stumble, rush),
  ...times(3, consume, catchUp, prune, launch, redrive),
  ...times(2, refuse, readTopic, advance, crash, haunt, linger, sliceOn),
  ...times(1, dropUndelivered, follow, cancel, sweep, finish, discard, jump),
];

/** Tokens and closed keys. */
const rights = [
  ...times(8, draw),
  ...times(2, closeBucket, openBucket, advance),
  ...times(1, listClosed, sweep, jump, work, launch, linger),
];

const THEMES = [
  everything,
  slicing,
  leases,
  stops,
  contents,
  stalls,
  lanes,
  letters,
  steps,
  remains,
  shares,
  outlets,
  rights,
];

/** The commands of one run. */
export function drawScript(commandsMax: number): fc.Arbitrary<Iterable<Command>> {
  const constraints = { maxCommands: commandsMax, size: "max" } as const;
  return fc.oneof(...THEMES.map((theme) => fc.commands(theme, constraints)));
}
