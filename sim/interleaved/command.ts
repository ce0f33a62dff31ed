/** `npm run sim -- --store postgres`: seeds on a server of its own. */
import { startPostgres } from "../../test/support/postgres-server.ts";
import { describePlayed } from "./describe.ts";
import { addCounts, type Counts, NO_COUNTS, type PlayedSeed } from "./play.ts";
import { leaveServers, playOnServer } from "./play-on-server.ts";

export interface ServerSeeds {
  readonly from: number;
  readonly seeds: number;
  /** Also the statements of a seed that passes. */
  readonly trace: boolean;
  readonly print: (...lines: readonly string[]) => void;
}

/** Stops at the first seed that fails. Returns the exit code. */
export async function playServerSeeds({ from, seeds, trace, print }: ServerSeeds): Promise<number> {
  const startedAt = performance.now();
  const server = await startPostgres();
  let counts: Counts = NO_COUNTS;
  let failed: PlayedSeed | null = null;
  let seed = from;
  try {
    for (; seed < from + seeds && failed === null; seed++) {
      const played = await playOnServer(seed, server.address);
      counts = addCounts(counts, played.counts);
      if (played.problems.length > 0) failed = played;
      else if (trace) print(...played.story);
    }
  } finally {
    await leaveServers();
    await server.stop();
  }
  if (failed !== null) print(describePlayed(failed));
  const { rounds, calls, statements, waits, retries } = counts;
  const tookS = Math.round((performance.now() - startedAt) / 1_000);
  print(
    `${seed - from} seeds on PostgreSQL in ${tookS} s: ${failed === null ? 0 : 1} failed`,
    `${calls} calls in ${rounds} rounds: ${statements} statements, ${waits} waits for a lock, ${retries} repeated transactions`,
  );
  return failed === null ? 0 : 1;
}
