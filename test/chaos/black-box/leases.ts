/**
 * Which process ran which item under which lease. Fences rise, each belongs to one process, and the
 * last one counts.
 */
import { complain, type Evidence } from "./evidence.ts";
import type { Run } from "./run-log.ts";

/**
 * A convicted item was started in at least two lost leases, after its chunk was lost once in bulk.
 * Starts are written to the store before the item starts, so a process that is killed in between
 * leaves no line.
 */
const DEATHS_SEEN_MIN = 1;
const LOSSES_SEEN_MIN = 2;

/** A chunk's fence never falls, and a lease belongs to one process. */
export function checkFences({ runs, chunkSize }: Evidence): string[] {
  const fallen: unknown[] = [];
  const shared: unknown[] = [];
  const repeated: unknown[] = [];
  const highest = new Map<number, Run>();
  const holders = new Map<string, string>();
  const started = new Map<number, number[]>();
  for (const run of runs) {
    const chunk = Math.floor(run.item / chunkSize);
    const before = highest.get(chunk);
    if (before === undefined || run.fence >= before.fence) highest.set(chunk, run);
    else if (!run.isCaught) fallen.push({ run, before });
    const lease = `${chunk}/${run.fence}`;
    const holder = holders.get(lease) ?? run.process;
    if (holder !== run.process) shared.push({ lease, holder, also: run.process });
    holders.set(lease, holder);
    const fences = started.get(run.item);
    if (fences === undefined) started.set(run.item, [run.fence]);
    else if (fences.includes(run.fence)) repeated.push(run);
    else fences.push(run.fence);
  }
  return [
    ...complain("a chunk's fence fell", fallen),
    ...complain("one lease ran in two processes", shared),
    ...complain("started twice under one lease", repeated),
  ];
}

/**
 * A result belongs to the last lease under which its item has started: a worker without its lease
 * can change nothing. And what is counted as done has been done.
 */
export function checkWinners({ runs, results }: Evidence): string[] {
  const last = new Map<number, Run>();
  for (const run of runs) {
    const before = last.get(run.item);
    if (before === undefined || run.fence >= before.fence) last.set(run.item, run);
  }
  const unrun: unknown[] = [];
  const stale: unknown[] = [];
  for (const { item, value } of results) {
    const run = last.get(item);
    if (run === undefined) unrun.push({ item, value });
    else if (run.fence !== value.fence || run.process !== value.by) stale.push({ value, run });
    else if (run.answer !== "ok") unrun.push({ item, value, run });
  }
  return [
    ...complain("a result without a finished run", unrun),
    ...complain("a result of an earlier lease", stale),
  ];
}

/** No item fails more often than allowed, except for attempts whose end a disturbance hid. */
export function checkAttempts(evidence: Evidence): string[] {
  const { runs, attemptsMax, disturbed, letters, chunkSize } = evidence;
  const lost = countBy(runs.filter(({ process }) => disturbed.has(process)));
  const tooMany = runs.filter(
    ({ item, attempt, drive }) => drive === 1 && attempt > attemptsMax + (lost.get(item) ?? 0),
  );
  const innocent = letters.filter(
    ({ item, code }) =>
      code === "POISON" &&
      ((lost.get(item) ?? 0) < DEATHS_SEEN_MIN ||
        countLosses(evidence, Math.floor(item / chunkSize)) < LOSSES_SEEN_MIN),
  );
  return [
    ...complain(`more than ${attemptsMax} attempts`, tooMany),
    ...complain("convicted without proof", innocent),
  ];
}

/** Leases of a chunk under which a disturbed process ran something, or no process ran anything. */
function countLosses({ runs, disturbed, chunkSize }: Evidence, chunk: number): number {
  const processes = new Map<number, string>();
  for (const { item, fence, process } of runs) {
    if (Math.floor(item / chunkSize) === chunk) processes.set(fence, process);
  }
  const orderly = [...processes.values()].filter((process) => !disturbed.has(process));
  return Math.max(0, ...processes.keys()) - orderly.length;
}

/**
 * Every start after the first has its reason: the one before failed, or its process was disturbed.
 * On a busy machine a process may also lose a short lease.
 */
export function checkRepeats({ runs, disturbed, leasesAreLong }: Evidence): string[] {
  if (!leasesAreLong) return [];
  const starts = countBy(runs);
  const reasons = countBy(
    runs.filter(({ process, answer }) => answer === "fail" || disturbed.has(process)),
  );
  const needless = [...starts]
    .filter(([item, count]) => count > 1 + (reasons.get(item) ?? 0))
    .map(([item, count]) => ({ item, starts: count }));
  return complain("started again without a reason", needless);
}

function countBy(runs: readonly Run[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { item } of runs) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}
