/**
 * The reference model and every other store get the same commands, in any order: each answer must be
 * the same, and so must everything that they hold. These tests do not predict what is right; the
 * oracle in the parent folder does.
 *
 * The seed is fixed, so that a changed result comes from a changed line. SLUICE_PROPERTY_RUNS sets
 * the number of runs, with a new seed each time. A failure prints its seed and path, and the calls in
 * words. To see it again, put seed and path into the options below, and its `replayPath` into those
 * of `fc.commands` in themes.ts.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { play, run } from "./play.ts";

const RUNS = 60;
/**
 * Shrinking a failing run stops here; the best result until then is printed. Several times as long
 * as all runs take, also on a machine that does other work.
 */
const TIME_LIMIT_MS = 400_000;
const SEED = 20_270_204;

const wanted = process.env["SLUICE_PROPERTY_RUNS"];
const runs = Number(wanted ?? RUNS);
const timeLimitMs = TIME_LIMIT_MS * Math.max(1, runs / RUNS);

/**
 * What the commands must have reached: otherwise the test passes although all calls came too late.
 */
const SEEN = [
  "submit: existing",
  "submit: key_taken",
  "plan: duplicate_key",
  "plan: moved_on",
  "planInline: leased",
  "work: settled+ended",
  "work: lost",
  "claimContents: held",
  "sweep: tended+ended",
  "redrive: done",
  "redrive: done revived",
  "redrive: refused step_is_over",
  "editDeadLetter: true",
  "moveInLane: done",
  "prune: removed",
  "prune: owed",
  "prune: messages",
  "forgetReader: true",
  "work: leased+permits",
  "work: permits",
  "setLimit: true",
  "setLimit: false",
  "rewindReader: true",
  "readMessages: some",
  "draw: granted",
  "draw: rate",
  "draw: pace",
  "draw: closed",
  "openBucket: true",
  "listClosed: some",
];

/** What only many runs reach. */
const RARELY_SEEN = ["claimContents: done", "savePosition: false", "draw: quiet"];
const RUNS_FOR_RARE = 1_000;

test("every store answers and holds the same as the reference model", {
  timeout: timeLimitMs + 10_000,
}, async () => {
  const tally = new Map<string, number>();
  let played = 0;
  await fc.assert(
    fc.asyncProperty(run, async (drawn) => {
      await play(drawn, tally);
      played += 1;
    }),
    {
      numRuns: runs,
      ...(wanted === undefined ? { seed: SEED } : {}),
      plugins: [fc.interruptAfterTimeLimit(timeLimitMs)],
    },
  );
  expect(played).toBe(runs);
  const expected = runs < RUNS_FOR_RARE ? SEEN : [...SEEN, ...RARELY_SEEN];
  expect(expected.filter((what) => !tally.has(what))).toEqual([]);
});
