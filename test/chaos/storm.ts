/** A crew of which one is killed every two seconds and started again at once, until the batch ends. */
import { expect } from "vitest";
import { SeededRandom } from "../../src/testing/seeded-random.ts";
import { seclude } from "../support/pid-namespace.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, isOverWithin, LEASE_MS, type MemberOptions, SWEEP_MS } from "./crew.ts";
import { shuffle } from "./draw.ts";
import { describeRecoveries, measureRecoveries } from "./recovery.ts";

export interface StormOptions {
  readonly items: number;
  readonly workers: number;
  readonly workMs: number;
  readonly killsMin: number;
  /** For how long there must have been kills. */
  readonly stormMsMin?: number;
  /** How often everything that was reported so far is written down. */
  readonly lookEveryMs: number;
  readonly seed: number;
}

const KILL_EVERY_MS = 2_000;
/** What is left of the promise when the lease is over: a sweep, and two seconds. */
const RECOVERY_MAX_MS = LEASE_MS + SWEEP_MS + 2_000;

export async function checkStorm(options: StormOptions): Promise<void> {
  const { items, workers, workMs, killsMin, seed } = options;
  const crew = new Crew({ items, workMs, mixed: true, events: "events.jsonl" });
  try {
    const before = seclude();
    crew.start("run");
    // Of every second worker nobody sees that it is gone: its lease has to run out.
    for (let at = 0; at < workers; at++) crew.start("work", at % 2 === 0 ? { before } : {});
    await crew.onlooker.findBatch();
    const ended = crew.onlooker.waitForEnd();
    const looking = lookAgainAndAgain(crew, ended, options.lookEveryMs);
    await killOneByOne(crew, ended, new SeededRandom(seed));
    await looking;
    const { kills } = crew;
    const evidence = await crew.gather();
    expect(findFaults(evidence), `seed ${seed}`).toEqual([]);
    const { runs, chunkSize } = evidence;
    const recoveries = measureRecoveries(runs, kills, chunkSize);
    const tookMs = Math.round(runs.at(-1)!.startAt - runs[0]!.startAt);
    const retries = runs.filter(({ attempt }) => attempt > 1).length;
    const repeats = runs.length - items - retries;
    console.log(
      `${items} items in ${tookMs} ms, ${kills.length} kills, ${repeats} starts repeated (and ${retries} after a failure); ${describeRecoveries(recoveries)}`,
    );
    expect(kills.length).toBeGreaterThanOrEqual(killsMin);
    expect(kills.at(-1)!.at - kills[0]!.at).toBeGreaterThanOrEqual(options.stormMsMin ?? 0);
    const late = recoveries.filter(({ tookMs }) => (tookMs ?? Infinity) > RECOVERY_MAX_MS);
    expect(late, `seed ${seed}: not taken up again within ${RECOVERY_MAX_MS} ms`).toEqual([]);
  } finally {
    await crew.dispose();
  }
}

/** Each of them once a round, in another order every time. */
async function killOneByOne(
  crew: Crew,
  ended: Promise<unknown>,
  random: SeededRandom,
): Promise<void> {
  let round: MemberOptions[] = [];
  while (!(await isOverWithin(ended, KILL_EVERY_MS))) {
    crew.supervise();
    if (round.length === 0)
      round = shuffle(
        crew.members.map(({ options }) => options),
        random,
      );
    const place = round.pop();
    const victim = crew.members.find(({ options }) => options === place);
    if (victim === undefined) continue;
    await crew.kill(victim);
    crew.restart(victim);
  }
}

async function lookAgainAndAgain(
  crew: Crew,
  ended: Promise<unknown>,
  everyMs: number,
): Promise<void> {
  while (!(await isOverWithin(ended, everyMs))) await crew.onlooker.look({ withResults: true });
}
