/** A crew of which one is killed every two seconds and started again at once, until the batch ends. */
import { expect, vi } from "vitest";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { seclude } from "../support/pid-namespace.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, isOverWithin, LEASE_MS, type MemberOptions, SWEEP_MS } from "./crew.ts";
import { shuffle } from "./draw.ts";
import { WAIT_MS } from "./onlooker.ts";
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
  /** Default a file of SQLite. */
  readonly store?: string;
  /** What else goes wrong until the end. */
  readonly disturb?: (storm: Storm) => Promise<void>;
  /** Within which what a killed worker held runs again. Default what is promised for a store that is there. */
  readonly recoveryMaxMs?: number;
  /** In what a process says that may end by itself and is started again. */
  readonly mayEnd?: RegExp;
}

export interface Storm {
  readonly crew: Crew;
  readonly ended: Promise<unknown>;
  readonly random: SeededRandom;
}

const KILL_EVERY_MS = 2_000;
/** What is left of the promise when the lease is over: a sweep, and two seconds. */
export const RECOVERY_MAX_MS = LEASE_MS + SWEEP_MS + 2_000;

export async function checkStorm(options: StormOptions): Promise<void> {
  const { items, workers, workMs, killsMin, seed } = options;
  const { store, disturb, recoveryMaxMs = RECOVERY_MAX_MS } = options;
  const crew = new Crew({
    items,
    workMs,
    mixed: true,
    events: "events.jsonl",
    ...(store === undefined ? {} : { store }),
  });
  try {
    const before = seclude();
    crew.start("run");
    // Of every second worker nobody sees that it is gone: its lease has to run out.
    for (let at = 0; at < workers; at++) crew.start("work", at % 2 === 0 ? { before } : {});
    await crew.onlooker.findBatch();
    const ended = crew.onlooker.waitForEnd();
    const storm = { crew, ended, random: new SeededRandom(seed) };
    await Promise.all([
      lookAgainAndAgain(storm, options),
      killOneByOne(storm, options.mayEnd),
      disturb?.({ ...storm, random: new SeededRandom(seed + 1) }),
    ]);
    const { kills } = crew;
    const evidence = await crew.gather();
    expect(findFaults(evidence), `seed ${seed}`).toEqual([]);
    const { runs, letters, chunkSize } = evidence;
    const convicted = letters.filter(({ code }) => code === "POISON").length;
    const recoveries = measureRecoveries(runs, kills, chunkSize);
    const tookMs = Math.round(runs.at(-1)!.startAt - runs[0]!.startAt);
    const retries = runs.filter(({ attempt }) => attempt > 1).length;
    const repeats = runs.length - items - retries;
    console.log(
      `${items} items in ${tookMs} ms, ${kills.length} kills, ${repeats} starts repeated (and ${retries} after a failure), ${convicted} convicted; ${describeRecoveries(recoveries)}`,
    );
    expect(kills.length).toBeGreaterThanOrEqual(killsMin);
    expect(kills.at(-1)!.at - kills[0]!.at).toBeGreaterThanOrEqual(options.stormMsMin ?? 0);
    const late = recoveries.filter(({ tookMs }) => (tookMs ?? Infinity) > recoveryMaxMs);
    expect(late, `seed ${seed}: not taken up again within ${recoveryMaxMs} ms`).toEqual([]);
  } finally {
    await crew.dispose();
  }
}

/** Each of them once a round, in another order every time. */
async function killOneByOne({ crew, ended, random }: Storm, mayEnd?: RegExp): Promise<void> {
  let round: MemberOptions[] = [];
  while (!(await isOverWithin(ended, KILL_EVERY_MS))) {
    crew.supervise(mayEnd);
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

/** Whoever looks while the store cannot be reached looks again. */
async function lookAgainAndAgain(
  { crew, ended }: Storm,
  { lookEveryMs, disturb }: StormOptions,
): Promise<void> {
  const look = (): Promise<unknown> => crew.onlooker.look({ withResults: true });
  while (!(await isOverWithin(ended, lookEveryMs))) {
    await (disturb === undefined ? look() : vi.waitFor(look, { timeout: WAIT_MS }));
  }
}
