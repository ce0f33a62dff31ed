/**
 * Workers are stopped and replaced one after the other while they work, as a deployment does it.
 * Each exits in order and in time, and what it gives back continues elsewhere.
 */
import { expect } from "vitest";
import type { Run } from "./black-box/run-log.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, type Member } from "./crew.ts";
import { describeRecoveries, type Recovery } from "./recovery.ts";

const WORKERS = 3;
/** Lines of starts and ends between two restarts: all processes are working again. */
const LINES_BETWEEN = 600;
const CHUNK_SIZE = 50;
const DRAIN_MS = 5_000;
/** Handlers take milliseconds; this allows for a busy machine. */
const STOP_MAX_MS = 20_000;
/** The promise is a second on an idle machine. */
const TAKEN_UP_MAX_MS = 10_000;

interface Stop {
  readonly process: string;
  /** On the monotonic clock, just before the signal. */
  readonly at: number;
  readonly tookMs: number;
}

/** Restarts this number of workers; throws at the first violation. */
export async function checkRolling(restarts: number, crewOf: (crew: Crew) => void): Promise<void> {
  const items = ((restarts + 4) * LINES_BETWEEN) / 2;
  const settings = { drainMs: DRAIN_MS, leaseMs: 60_000 };
  const sizes = { chunkSize: CHUNK_SIZE, concurrency: 4, workMs: 20 };
  const crew = new Crew({ items, ...sizes, settings });
  crewOf(crew);
  expect((await crew.start("submit").running.ended).code).toBe(0);
  let members = Array.from({ length: WORKERS }, () => crew.start("work"));
  const stops: Stop[] = [];
  for (let restart = 1; restart <= restarts; restart++) {
    await crew.onlooker.waitForLines(restart * LINES_BETWEEN);
    const [oldest, ...others] = members as [Member, ...Member[]];
    await oldest.running.waitFor(/working on/);
    stops.push(await stop(oldest));
    members = [...others, crew.restart(oldest)];
  }
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  expect(findFaults(evidence)).toEqual([]);
  // Every item ran once and to its end: nothing was lost, and no restart counted an attempt.
  expect(evidence.runs.filter(({ attempt, endAt }) => attempt > 1 || endAt === null)).toEqual([]);
  expect(evidence.runs).toHaveLength(items);
  report(stops, measureHandOvers(evidence.runs, stops));
}

async function stop({ name, running }: Member): Promise<Stop> {
  const at = readMonotonicMs();
  running.signal("SIGTERM");
  const { code, signal, stderr } = await running.ended;
  expect(code, `${name} ended with ${code ?? signal}:\n${stderr}`).toBe(0);
  return { process: name, at, tookMs: readMonotonicMs() - at };
}

/** One entry for each chunk that a stopped process had begun and not finished. */
function measureHandOvers(runs: readonly Run[], stops: readonly Stop[]): Recovery[] {
  const byChunk = Map.groupBy(runs, ({ item }) => Math.floor(item / CHUNK_SIZE));
  const stopped = new Map(stops.map((one) => [one.process, one.at]));
  return [...byChunk].flatMap(([chunk, ofChunk]) =>
    [...Map.groupBy(ofChunk, ({ process }) => process)].flatMap(([process, own]) => {
      const at = stopped.get(process);
      const endedAt = Math.max(...own.map(({ endAt }) => endAt ?? 0));
      const next = ofChunk.find((run) => run.process !== process && run.startAt > endedAt);
      if (at === undefined || next === undefined) return [];
      // Its last item may have ended long before the stop, because the next one waited for its
      // turn.
      return [{ process, chunk, tookMs: next.startAt - Math.max(at, endedAt) }];
    }),
  );
}

function report(stops: readonly Stop[], handOvers: readonly Recovery[]): void {
  const slowestMs = Math.max(...stops.map(({ tookMs }) => tookMs));
  console.log(
    `${stops.length} restarts, the slowest stop took ${Math.round(slowestMs)} ms; ${describeRecoveries(handOvers)}`,
  );
  expect(slowestMs).toBeLessThan(STOP_MAX_MS);
  expect(handOvers.length).toBeGreaterThan(stops.length / 2);
  for (const { tookMs, chunk, process } of handOvers) {
    expect(tookMs, `chunk ${chunk} of ${process}`).toBeLessThan(TAKEN_UP_MAX_MS);
  }
}
