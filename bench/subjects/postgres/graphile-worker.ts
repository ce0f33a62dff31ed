/**
 * graphile-worker 0.18. Its best documented settings: jobs are added by `addJobs`, the local queue
 * fetches 500 at once, completions go in batches (`completeJobBatchDelay: 0`) and 24 run at a time;
 * these are the settings of its own page on performance. It deletes a job that is completed, so
 * outcomes go to a table. Handlers with one item each share the statements that write them, so
 * 500 run at a time there, as many as are fetched: with 24 it was half as quick.
 */
import {
  handleItem,
  importPeer,
  type Load,
  type OpenQueue,
  type QueueOptions,
  runQueue,
} from "./queue-run.ts";
import { type OutcomeBook, SharedWrites } from "./outcome-book.ts";

type Handler = (load: Load) => Promise<void>;
interface Runner {
  readonly promise: Promise<void>;
  stop(): Promise<void>;
}
interface WorkerUtils {
  addJobs(jobs: readonly { identifier: string; payload: Load }[]): Promise<unknown>;
  migrate(): Promise<void>;
  release(): Promise<void>;
}
interface GraphileModule {
  readonly Logger: new (create: () => () => void) => unknown;
  readonly run: (options: object) => Promise<Runner>;
  readonly makeWorkerUtils: (options: object) => Promise<WorkerUtils>;
}

const TASK = "item";
const SINGLES = { concurrentJobs: 500, localQueue: { size: 500 } };
const LOADED = { concurrentJobs: 4, localQueue: { size: 8 } };

async function load(): Promise<GraphileModule> {
  const module = await importPeer<GraphileModule & { default?: GraphileModule }>("graphile-worker");
  return module.default ?? module;
}

async function composePreset(options: QueueOptions): Promise<object> {
  const { Logger } = await load();
  return {
    worker: {
      connectionString: options.server,
      ...(options.itemsPerJob === 1 ? SINGLES : LOADED),
      maxPoolSize: 10,
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      // Otherwise it writes a line for each job.
      logger: new Logger(() => () => {}),
    },
  };
}

function createHandler({ itemsPerJob }: QueueOptions, book: OutcomeBook): Handler {
  const shared = new SharedWrites<number>((items) => book.recordItems(items));
  return async ({ items }) => {
    for (const item of items) await handleItem(item);
    if (itemsPerJob > 1) await book.recordItems(items.map(({ n }) => n));
    else for (const { n } of items) await shared.add(n);
  };
}

await runQueue({
  install: async (options) => {
    const { makeWorkerUtils } = await load();
    const utils = await makeWorkerUtils({ preset: await composePreset(options) });
    await utils.migrate();
    await utils.release();
  },
  open: async (options, book, fail): Promise<OpenQueue> => {
    const { makeWorkerUtils, run } = await load();
    const preset = await composePreset(options);
    const utils = await makeWorkerUtils({ preset });
    let runner: Runner | null = null;
    return {
      add: async (loads) => {
        await utils.addJobs(loads.map((payload) => ({ identifier: TASK, payload })));
      },
      work: async () => {
        const taskList = { [TASK]: createHandler(options, book) };
        runner = await run({ preset, taskList, noHandleSignals: true });
        runner.promise.catch(fail);
      },
      countOutcomes: () => book.countOutcomes(),
      close: async () => {
        await runner?.stop();
        await utils.release();
      },
    };
  },
});
