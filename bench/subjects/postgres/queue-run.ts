/**
 * One batch on a job queue, as a user of that queue would build it: the file is read, its items are
 * added as jobs in bulk, workers in this and other processes run an empty handler for each item,
 * every item's outcome is recorded durably, and a counter shows the end. The workers start before
 * the first job is added, as Sluice's do. The clock runs from the reading of the file to the end.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { type Role, serveAsHelper, startHelper } from "../../second-process.ts";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";
import { OutcomeBook } from "./outcome-book.ts";

export interface QueueOptions {
  readonly server: string;
  readonly itemsPath: string;
  readonly items: number;
  readonly itemsPerJob: number;
  readonly processes: number;
  readonly role?: Role;
}

export interface Item {
  /** Its position in the file. */
  readonly n: number;
  readonly id: string;
  readonly value: number;
  readonly kind: string;
}

/** A job's payload. */
export interface Load {
  readonly items: readonly Item[];
}

/** A peer in one process. */
export interface OpenQueue {
  add(loads: readonly Load[]): Promise<void>;
  /** Begins to work, in this process. */
  work(): Promise<void>;
  /** How many items have an outcome on disk, wherever this peer stores it. */
  countOutcomes(): Promise<number>;
  close(): Promise<void>;
}

export interface Queue {
  /** Creates its tables. */
  install(options: QueueOptions): Promise<void>;
  /** `fail` ends the run. */
  open(
    options: QueueOptions,
    book: OutcomeBook,
    fail: (error: unknown) => void,
  ): Promise<OpenQueue>;
}

/** Items, not jobs, in one call that adds. */
const ITEMS_PER_ADD = 10_000;
const BOOK_CONNECTIONS = 4;

export async function runQueue(queue: Queue): Promise<void> {
  await runSubject<QueueOptions>((options) => measureQueue(queue, options));
}

async function measureQueue(queue: Queue, options: QueueOptions): Promise<Figures> {
  const book = new OutcomeBook(options.server, BOOK_CONNECTIONS);
  const failure = new AbortController();
  const fail = (error: unknown) => failure.abort(error);
  const isMain = options.role !== "helper";
  try {
    if (isMain) {
      await book.create(options.items);
      await queue.install(options);
    }
    const opened = await queue.open(options, book, fail);
    try {
      await opened.work();
      if (isMain) return await runBatch(opened, book, options, failure.signal);
      await serveAsHelper([]);
      return {};
    } finally {
      await opened.close();
    }
  } finally {
    await book.close();
  }
}

async function runBatch(
  opened: OpenQueue,
  book: OutcomeBook,
  options: QueueOptions,
  signal: AbortSignal,
): Promise<Figures> {
  const helpers = [];
  for (let at = 1; at < options.processes; at++) {
    const script = process.argv[1] ?? "";
    helpers.push(await startHelper(script, options));
  }
  const startedAt = performance.now();
  await addItems(opened, options);
  const addSeconds = elapsedSeconds(startedAt);
  await book.waitForEnd(signal);
  const seconds = elapsedSeconds(startedAt);
  for (const helper of helpers) await helper.finish();
  checkCount("outcomes", await opened.countOutcomes(), options.items);
  return { seconds, addSeconds, itemsPerSecond: options.items / seconds };
}

async function addItems(opened: OpenQueue, options: QueueOptions): Promise<void> {
  let load: Item[] = [];
  let loads: Load[] = [];
  let n = 0;
  for await (const line of createInterface({ input: createReadStream(options.itemsPath) })) {
    load.push({ n: n++, ...(JSON.parse(line) as Omit<Item, "n">) });
    if (load.length === options.itemsPerJob) {
      loads.push({ items: load });
      load = [];
    }
    if (n % ITEMS_PER_ADD === 0 && loads.length > 0) {
      await opened.add(loads);
      loads = [];
    }
  }
  if (load.length > 0) loads.push({ items: load });
  if (loads.length > 0) await opened.add(loads);
}

/** The purpose of the batch: nothing, in all subjects alike. */
export async function handleItem(_item: Item): Promise<void> {}

/**
 * Imported by a computed name, so that the repository's type check does not need the peers to be
 * installed.
 */
export async function importPeer<Module>(name: string): Promise<Module> {
  return (await import(name)) as Module;
}
