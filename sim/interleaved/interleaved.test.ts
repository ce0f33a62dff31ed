/**
 * Several stores on one real PostgreSQL server, their statements interleaved by a seed: what they
 * answer and hold must be what the reference model says for some order of the calls.
 * `npm run sim -- --store postgres` plays more seeds.
 */
import { afterAll, expect, test } from "vitest";
import { askForPostgres } from "../../test/support/postgres-setup.ts";
import { describePlayed } from "./describe.ts";
import { addCounts, type Counts, NO_COUNTS } from "./play.ts";
import { leaveServers, playOnServer } from "./play-on-server.ts";

const SEEDS = 7;
/** Real time, on a machine that also does other work. */
const SEED_LIMIT_MS = 60_000;

afterAll(leaveServers);

test(`${SEEDS} seeds: transactions that meet do what some order of the calls does`, {
  timeout: SEEDS * SEED_LIMIT_MS,
}, async () => {
  const server = await askForPostgres();
  let counts: Counts = NO_COUNTS;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const played = await playOnServer(seed, server);
    expect(played.problems, describePlayed(played)).toEqual([]);
    counts = addCounts(counts, played.counts);
  }
  // Otherwise the test passes although the calls do not meet.
  expect(counts.waits).toBeGreaterThan(5 * SEEDS);
  expect(counts.retries).toBeGreaterThan(0);
});

test("a seed gives the same statements in the same order again", {
  timeout: 2 * SEED_LIMIT_MS,
}, async () => {
  const server = await askForPostgres();
  const { story } = await playOnServer(3, server);
  const again = await playOnServer(3, server);
  expect(again.story).toEqual(story);
});
