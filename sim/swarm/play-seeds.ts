/** Plays many seeds in several processes, and adds up their coverage. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Coverage } from "./coverage.ts";

export interface SeedReport {
  readonly seed: number;
  readonly problems: readonly string[];
  readonly calls: number;
  readonly faults: number;
  readonly digest: string;
  readonly virtualMs: number;
  readonly cells: readonly (readonly [string, number])[];
  readonly tookMs: number;
}

export interface Totals {
  readonly seeds: number;
  readonly failed: readonly SeedReport[];
  readonly calls: number;
  readonly faults: number;
  readonly medianCalls: number;
  readonly medianFaults: number;
  readonly virtualHours: number;
  readonly coverage: Coverage;
  /** By seed. */
  readonly digests: ReadonlyMap<number, string>;
}

export interface SwarmOptions {
  readonly seeds: readonly number[];
  readonly jobs: number;
  /** After this many failures no more seeds begin. */
  readonly failuresMax: number;
  readonly onReport: (report: SeedReport) => void;
}

const PROCESS = fileURLToPath(new URL("./seed-process.ts", import.meta.url));

export async function playSeeds(options: SwarmOptions): Promise<Totals> {
  const reports: SeedReport[] = [];
  const coverage = new Coverage();
  const queue = [...options.seeds];
  let failures = 0;
  const take = (): number | undefined =>
    failures >= options.failuresMax ? undefined : queue.shift();
  const note = (report: SeedReport): void => {
    reports.push({ ...report, cells: [] });
    coverage.merge(report.cells);
    if (report.problems.length > 0) failures++;
    options.onReport(report);
  };
  await Promise.all(Array.from({ length: options.jobs }, () => runProcess(take, note)));
  const sum = (pick: (report: SeedReport) => number): number =>
    reports.reduce((total, report) => total + pick(report), 0);
  return {
    seeds: reports.length,
    failed: reports
      .filter(({ problems }) => problems.length > 0)
      .toSorted((a, b) => a.seed - b.seed),
    calls: sum(({ calls }) => calls),
    faults: sum(({ faults }) => faults),
    medianCalls: findMedian(reports.map(({ calls }) => calls)),
    medianFaults: findMedian(reports.map(({ faults }) => faults)),
    virtualHours: sum(({ virtualMs }) => virtualMs) / 3_600_000,
    coverage,
    digests: new Map(reports.map(({ seed, digest }) => [seed, digest])),
  };
}

async function runProcess(
  take: () => number | undefined,
  note: (report: SeedReport) => void,
): Promise<void> {
  const child = fork(PROCESS, [], { execArgv: ["--max-semi-space-size=64"] });
  try {
    for (let seed = take(); seed !== undefined; seed = take()) {
      child.send({ seed });
      note(await hear(child, seed));
    }
  } finally {
    child.disconnect();
  }
}

/** A process that dies found something that no checker caught. */
async function hear(child: ChildProcess, seed: number): Promise<SeedReport> {
  const gone = new AbortController();
  const { signal } = gone;
  const died = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`seed ${seed} ended its process with ${String(code)}`);
  });
  try {
    const [report] = (await Promise.race([once(child, "message", { signal }), died])) as [
      SeedReport,
    ];
    return report;
  } finally {
    gone.abort();
    died.catch(() => undefined);
  }
}

function findMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
