/**
 * One process of a crew is killed every two seconds and restarted at once, until the batch ends.
 */
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
  /** The minimum duration of the kills. */
  readonly stormMsMin?: number;
  /** How often everything that was reported is saved. */
  readonly lookEveryMs: number;
  readonly seed: number;
  /** Default a SQLite file. */
  readonly store?: string;
  /** Other faults until the end. */
  readonly disturb?: (storm: Storm) => Promise<void>;
  /**
   * The time within which a killed worker's items run again. Default: the promise for a reachable
   * store.
   */
  readonly recoveryMaxMs?: number;
  /** The output of a process that may exit and is restarted. */
  readonly mayEnd?: RegExp;
}

export interface Storm {
  readonly crew: Crew;
  readonly ended: Promise<unknown>;
  readonly random: SeededRandom;
}

const KILL_EVERY_MS = 2_000;
/** The rest of the promise after the lease has expired: a sweep, and two seconds. */
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
    // For every second worker its death is not visible: its lease has to expire.
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
    expect(late, `seed ${seed}: not leased again within ${recoveryMaxMs} ms`).toEqual([]);
  } finally {
    await crew.dispose();
  }
}

/** Each process once per round, each time in another order. */
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

/** Tries again while the store cannot be reached. */
async function lookAgainAndAgain(
  { crew, ended }: Storm,
  { lookEveryMs, disturb }: StormOptions,
): Promise<void> {
  const look = (): Promise<unknown> => crew.onlooker.look({ withResults: true });
  while (!(await isOverWithin(ended, lookEveryMs))) {
    await (disturb === undefined ? look() : vi.waitFor(look, { timeout: WAIT_MS }));
  }
}
