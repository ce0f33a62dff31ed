/**
 * plainjob, the fastest queue on SQLite that was found, with one job per item: the same file is read,
 * every item is added as a job, and one worker runs an empty handler for each. Its best documented
 * settings: jobs are added in bulk (`addMany`, one transaction), logging is off (its default logger
 * writes several lines per job) and one process works (a second one on the same file gained nothing:
 * 3,083 and 3,047 jobs/s at FULL, 12,940 and 12,638 at its default).
 * The end is counted in memory, which is cheaper than anything a user could rely on after a crash.
 *
 * `defineQueue` sets `synchronous = NORMAL` on its connection, so a power cut may undo finished jobs.
 * With `synchronous: "FULL"` the same connection is set to what Sluice promises.
 */
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface PlainjobOptions {
  readonly itemsPath: string;
  readonly items: number;
  readonly synchronous: "FULL" | "default";
}

// The parts of the two packages that are used here. They are named at run time and typed by hand, so
// that the repository's type check does not need the peers to be installed.
interface Connection {
  pragma(statement: string): void;
}
interface Queue {
  addMany(type: string, data: readonly unknown[]): { ids: number[] };
  countJobs(filter: { type: string; status: number }): number;
  close(): void;
}
interface Worker {
  start(): Promise<void>;
  stop(): Promise<void>;
}
interface Job {
  readonly data: string;
}
type Log = (message: string) => void;
interface Plainjob {
  better(database: unknown): Connection;
  defineQueue(options: { connection: Connection; logger: Record<string, Log> }): Queue;
  defineWorker(
    type: string,
    handler: (job: Job) => Promise<void>,
    options: {
      queue: Queue;
      logger: Record<string, Log>;
      onCompleted: () => void;
      onFailed: (job: Job, error: string) => void;
      pollIntervall: number;
    },
  ): Worker;
  readonly JobStatus: { readonly Done: number };
}
interface BetterSqlite3 {
  readonly default: new (path: string) => unknown;
}

const JOB_TYPE = "item";
const JOBS_PER_ADD = 10_000;
const ignore: Log = () => undefined;
const logger = { error: ignore, warn: ignore, info: ignore, debug: ignore };

async function importPeer<Module>(name: string): Promise<Module> {
  return (await import(name)) as Module;
}

async function addItems(queue: Queue, itemsPath: string): Promise<void> {
  let pending: unknown[] = [];
  for await (const line of createInterface({ input: createReadStream(itemsPath) })) {
    pending.push(JSON.parse(line));
    if (pending.length === JOBS_PER_ADD) {
      queue.addMany(JOB_TYPE, pending);
      pending = [];
    }
  }
  if (pending.length > 0) queue.addMany(JOB_TYPE, pending);
}

async function runJobs(plainjob: Plainjob, queue: Queue, items: number): Promise<void> {
  let completed = 0;
  const ended = Promise.withResolvers<void>();
  const worker = plainjob.defineWorker(
    JOB_TYPE,
    async (job) => {
      JSON.parse(job.data);
    },
    {
      queue,
      logger,
      pollIntervall: 1,
      onCompleted: () => {
        completed++;
        if (completed === items) ended.resolve();
      },
      onFailed: (_job, error) => ended.reject(new Error(`a job failed: ${error}`)),
    },
  );
  const stopped = worker.start();
  // A worker that broke down would otherwise leave this waiting for ever.
  await Promise.race([ended.promise, stopped]);
  await worker.stop();
  await stopped;
}

async function measurePlainjob(
  options: PlainjobOptions & { readonly folder: string },
): Promise<Figures> {
  const plainjob = await importPeer<Plainjob>("plainjob");
  const { default: Database } = await importPeer<BetterSqlite3>("better-sqlite3");
  const connection = plainjob.better(new Database(join(options.folder, "plainjob.db")));
  const queue = plainjob.defineQueue({ connection, logger });
  if (options.synchronous === "FULL") connection.pragma("synchronous = FULL");
  try {
    const startedAt = performance.now();
    await addItems(queue, options.itemsPath);
    const addSeconds = elapsedSeconds(startedAt);
    await runJobs(plainjob, queue, options.items);
    const seconds = elapsedSeconds(startedAt);
    const done = queue.countJobs({ type: JOB_TYPE, status: plainjob.JobStatus.Done });
    checkCount("jobs that are done", done, options.items);
    return { seconds, addSeconds, itemsPerSecond: options.items / seconds };
  } finally {
    queue.close();
  }
}

await runSubject(measurePlainjob);
