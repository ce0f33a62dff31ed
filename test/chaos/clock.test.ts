/**
 * The wall clock jumps, for one of several processes and for all of them. Leases, back-off and time
 * limits use the monotonic clock and are not affected. A deadline is a time of day, and is.
 */
import { afterEach, expect, test } from "vitest";
import { MovableClock } from "../support/movable-clock.ts";
import { seclude } from "../support/pid-namespace.ts";
import type { Evidence } from "./black-box/evidence.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, LEASE_MS, type Member, SWEEP_MS } from "./crew.ts";
import { measureRecoveries } from "./recovery.ts";

const ITEMS = 4_000;
const RETRY_AFTER_MS = 1_500;
const YEAR_MS = 365 * 24 * 3_600_000;
/** How much later than due a retry may come on a busy machine. */
const LATE_MAX_MS = 10_000;

let crew: Crew;
afterEach(() => crew.dispose());

/** Between two steps a batch has no worker for a moment. */
const STEPS = `import { definePipeline, defineStep } from "sluice";
const makeStep = (n: number) =>
  defineStep({ name: "step-" + n, source: () => [1, 2, 3], process: () => undefined });
const [first, ...others] = Array.from({ length: 20 }, (_, n) => makeStep(n));
export default definePipeline({ name: "steps", steps: [first!, ...others] });
`;
const OTHER = `import { definePipeline } from "sluice";
export default definePipeline({ name: "other", source: () => [1], process: () => undefined });
`;

/** A process with its own clock, while it works. */
async function startWorker(clock: MovableClock): Promise<Member> {
  const member = crew.start("work", { env: clock.env, before: seclude() });
  await member.running.waitFor(/working on/);
  return member;
}

/** A temporary failure waits as long as it asked for, and not much longer. */
function findWrongBackOff({ runs, disturbed }: Evidence): unknown[] {
  return [...Map.groupBy(runs, ({ item }) => item).values()].flatMap((tries) =>
    tries.slice(1).flatMap((next, at) => {
      const before = tries[at]!;
      if (before.answer !== "fail" || disturbed.has(before.process)) return [];
      const waitedMs = next.startAt - before.endAt!;
      const isRight = waitedMs >= RETRY_AFTER_MS && waitedMs <= RETRY_AFTER_MS + LATE_MAX_MS;
      return isRight ? [] : [{ before, next, waitedMs }];
    }),
  );
}

test("a worker whose clock jumps by an hour and by ten years loses no lease, extends none, and keeps back-offs", async () => {
  crew = new Crew({ items: ITEMS, workMs: 8, mixed: true, retryAfterMs: RETRY_AFTER_MS });
  const clock = new MovableClock(crew.work.at("clock"));
  const jumpy = await startWorker(clock);
  crew.start("run");
  crew.start("work");
  await crew.onlooker.waitForLines(ITEMS * 0.2);
  for (const [share, jump] of [
    [0.4, "+1h"],
    [0.7, "-1h"],
    [1.1, "+10y"],
  ] as const) {
    clock.jump(jump);
    await crew.onlooker.waitForLines(ITEMS * share);
  }
  // This process, ten years ahead, dies unnoticed: its leases must expire like any others.
  await crew.kill(jumpy);
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  expect(findFaults(evidence)).toEqual([]);
  expect(findWrongBackOff(evidence)).toEqual([]);
  const { runs, chunkSize } = evidence;
  expect(runs.filter(({ process }) => process === jumpy.name).length).toBeGreaterThan(0);
  const recoveries = measureRecoveries(runs, crew.kills, chunkSize);
  const late = recoveries.filter(
    ({ tookMs }) => tookMs === null || tookMs > LEASE_MS + SWEEP_MS + 2_000,
  );
  expect(late).toEqual([]);
});

test("a batch continues when all processes restart an hour earlier, and then ten years later", async () => {
  crew = new Crew({ items: ITEMS, workMs: 8, mixed: true, retryAfterMs: RETRY_AFTER_MS });
  const clock = new MovableClock(crew.work.at("clock"));
  for (const [share, jump] of [
    [0.6, "+0"],
    [1.2, "-1h"],
  ] as const) {
    clock.jump(jump);
    for (const role of ["run", "work"] as const) crew.start(role, { env: clock.env });
    await crew.onlooker.waitForLines(ITEMS * share);
    await crew.stop();
    await crew.onlooker.look({ withResults: true });
  }
  clock.jump("+10y");
  for (const role of ["run", "work"] as const) crew.start(role, { env: clock.env });
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  expect(findFaults(evidence)).toEqual([]);
  expect(findWrongBackOff(evidence)).toEqual([]);
  // By the clock of the process that ended it.
  const ending = evidence.status.events.find(({ type }) => type === "batch.ended");
  expect(Date.parse(ending?.at ?? "")).toBeGreaterThan(Date.now() + 9 * YEAR_MS);
});

test("a deadline is judged by the clock of the process that checks it, and items that did not run are cancelled", async () => {
  crew = new Crew({ items: ITEMS, workMs: 8 });
  const clock = new MovableClock(crew.work.at("clock"));
  await startWorker(clock);
  crew.start("run", { args: ["--deadline", "30m"] });
  await crew.onlooker.waitForLines(ITEMS * 0.2);
  clock.jump("+1h");
  await crew.onlooker.waitForEnd();
  const evidence = await crew.gather();
  expect(findFaults(evidence)).toEqual([]);
  expect(evidence.status).toMatchObject({ state: "expired", reason: { code: "DEADLINE" } });
  expect(evidence.status.cancelled).toBeGreaterThan(0);
});

test("a worker whose clock is ten years ahead does not treat a live batch as stale", async () => {
  crew = new Crew({ items: 0 });
  const { work } = crew;
  work.write("steps.ts", STEPS);
  work.write("other.ts", OTHER);
  const clock = new MovableClock(work.at("clock"));
  clock.jump("+10y");
  const ahead = work.start(["work", "other.ts"], { env: { ...clock.env, SLUICE_LEASE_MS: "100" } });
  await ahead.waitFor(/working on other/);
  const running = work.start(["run", "steps.ts", "--json"]);
  // A parked batch would wait until it is resumed.
  await running.waitFor(/parked|"state":"succeeded"/);
  if (/parked/.test(running.stderr)) running.signal("SIGTERM");
  expect(await running.ended).toMatchObject({
    code: 0,
    stderr: expect.not.stringMatching(/parked/),
  });
  ahead.signal("SIGTERM");
  expect(await ahead.ended).toMatchObject({ code: 0 });
});
