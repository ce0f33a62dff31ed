/**
 * pg-boss 12. Its best documented settings: jobs are inserted in bulk, fetched in batches, a worker
 * that got a full batch fetches the next one at once (`burstWhenBatchFull`), and NOTIFY wakes those
 * that wait. It keeps a job's row when the job is completed, so with one job per item that row is the
 * item's outcome. Its `transactional` handlers write the counter (and with many items per job the
 * outcomes) in the transaction that completes the jobs: one for each fetched batch.
 */
import {
  handleItem,
  importPeer,
  type Load,
  type OpenQueue,
  type QueueOptions,
  runQueue,
} from "./queue-run.ts";
import { COUNT_DOWN, type OutcomeBook, RECORD_ITEMS } from "./outcome-book.ts";

interface Job {
  readonly data: Load;
}
interface Database {
  executeSql(text: string, values?: unknown[]): Promise<unknown>;
}
interface Boss {
  on(event: "error", listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  stop(options: { graceful: boolean; close: boolean }): Promise<void>;
  createQueue(name: string, options: object): Promise<void>;
  insert(name: string, jobs: readonly { data: Load }[]): Promise<unknown>;
  work(
    name: string,
    options: object,
    handler: (jobs: readonly Job[], transaction: Database) => Promise<void>,
  ): Promise<string>;
}
interface PgBossModule {
  readonly PgBoss: new (options: object) => Boss;
}

const QUEUE = "items";
const COMPLETED = `SELECT count(*) FROM pgboss.job WHERE name = '${QUEUE}' AND state = 'completed'`;
/**
 * Jobs of one fetch, and fetchers of one process. Between four fetchers with 500 each and one with
 * 5,000 there was no difference beyond noise: adding the jobs takes most of the time.
 */
const SINGLES = { batchSize: 1_000, localConcurrency: 2 };
const LOADED = { batchSize: 4, localConcurrency: 2 };

async function startBoss(options: QueueOptions, isMain: boolean): Promise<Boss> {
  const { PgBoss } = await importPeer<PgBossModule>("pg-boss");
  const boss = new PgBoss({
    connectionString: options.server,
    useListenNotify: true,
    migrate: isMain,
    schedule: false,
  });
  return boss;
}

await runQueue({
  install: async () => {},
  open: async (options, book: OutcomeBook, fail): Promise<OpenQueue> => {
    const isMain = options.role !== "helper";
    const boss = await startBoss(options, isMain);
    boss.on("error", fail);
    await boss.start();
    if (isMain) await boss.createQueue(QUEUE, { notify: true });
    const isSingle = options.itemsPerJob === 1;
    return {
      add: async (loads) => {
        await boss.insert(
          QUEUE,
          loads.map((data) => ({ data })),
        );
      },
      work: async () => {
        const settings = { ...(isSingle ? SINGLES : LOADED), burstWhenBatchFull: true };
        await boss.work(QUEUE, { ...settings, transactional: true }, async (jobs, transaction) => {
          const items = jobs.flatMap(({ data }) => data.items);
          for (const item of items) await handleItem(item);
          await (isSingle
            ? transaction.executeSql(COUNT_DOWN, [items.length])
            : transaction.executeSql(RECORD_ITEMS, [items.map(({ n }) => n)]));
        });
      },
      countOutcomes: () => (isSingle ? book.count(COMPLETED) : book.countOutcomes()),
      close: () => boss.stop({ graceful: true, close: true }),
    };
  },
});
