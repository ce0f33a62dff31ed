/**
 * One run: some initial batches, the commands of a script, and the end of everything that can end.
 */
import fc from "fast-check";
import { ManualClock } from "../../support/manual-clock.ts";
import { launch, type Shape, slice } from "./conducting.ts";
import { Lineup } from "./lineup.ts";
import { resumeEverything } from "./operating.ts";
import { type Command, isRunning, isUnfinished, isUnsliced, Stage } from "./stage.ts";
import { RIVALS } from "../rivals.ts";
import { drawScript } from "./themes.ts";
import { BRISK, succeed } from "./working.ts";

const COMMANDS_MAX = 100;
/** Rounds of slicing and working in which most of the rest ends. */
const ROUNDS = 4;
const ROUND_MS = 250;

/** What a run is made of. */
export const run = fc.tuple(
  fc.array(launch, { minLength: 1, maxLength: 3 }),
  drawScript(COMMANDS_MAX),
  /** Everything is compared after this number of commands. */
  fc.constantFrom(5, 20),
);

export type Run = readonly [readonly Command[], Iterable<Command>, number];

/** Throws a `Mismatch`; counts the answers in `tally`. */
export async function play(
  [opening, script, looksEvery]: Run,
  tally: Map<string, number>,
): Promise<void> {
  const clock = new ManualClock();
  const lineup = await Lineup.open(clock, RIVALS, tally);
  try {
    const stage = new Stage(clock, lineup, looksEvery);
    await stage.begin();
    for (const one of opening) await one.run(stage, {});
    await fc.asyncModelRun(() => ({ model: stage, real: {} }), script);
    await stage.compareStates();
    await playOut(stage);
    await stage.compareStates();
  } finally {
    await lineup.close();
  }
}

/**
 * Everything is resumed and leased; what is left then is given up or expires. This also reveals
 * state that no method returns, such as due times.
 */
async function playOut(stage: Stage): Promise<void> {
  await resumeEverything(stage);
  const shape: Shape = { sizes: [2], owned: "all", keys: null };
  for (let round = 0; round < ROUNDS; round++) {
    stage.clock.advance(ROUND_MS);
    await stage.lineup.call("sweep", BRISK);
    for (const { submission } of stage.listBatches(isUnsliced)) {
      await slice(stage, submission.id, round === 0 ? [shape] : []);
    }
    for (const { submission } of stage.listBatches(isUnfinished)) {
      await stage.lineup.call("seal", submission.id);
    }
    for (const { submission } of stage.listBatches(isRunning)) await succeed(stage, submission.id);
  }
}
