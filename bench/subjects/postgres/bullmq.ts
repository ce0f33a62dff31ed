/**
 * BullMQ 6 on its PostgreSQL backend. Jobs are added in bulk, and a worker runs 32 at a time with
 * as many connections, the most in its guide. It keeps the row of a completed job, so with one job
 * per item that row is the item's outcome. Completed jobs decrease the batch's counter, many by one
 * statement.
 */
import pg from "pg";
import { SharedWrites } from "./outcome-book.ts";
import { handleItem, importPeer, type Load, type OpenQueue, runQueue } from "./queue-run.ts";

interface BullQueue {
  addBulk(jobs: readonly { name: string; data: Load; opts?: object }[]): Promise<unknown>;
  getJobCounts(...states: string[]): Promise<Record<string, number>>;
  close(): Promise<void>;
}
interface BullWorker {
  on(event: "completed", listener: () => void): void;
  on(event: "failed", listener: (job: unknown, error: Error) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  close(): Promise<void>;
}
interface BullModule {
  readonly createPostgresBackend: unknown;
  readonly Queue: new (name: string, options: object, backend: unknown) => BullQueue;
  readonly Worker: new (
    name: string,
    handler: (job: { data: Load }) => Promise<void>,
    options: object,
    backend: unknown,
  ) => BullWorker;
  readonly runMigrations: (client: pg.Client) => Promise<unknown>;
}

const QUEUE = "items";
const JOB = "item";
const SINGLES = 32;
const LOADED = 4;

await runQueue({
  install: async ({ server }) => {
    const { runMigrations } = await importPeer<BullModule>("bullmq");
    const client = new pg.Client(server);
    await client.connect();
    await runMigrations(client);
    await client.end();
  },
  open: async (options, book, fail): Promise<OpenQueue> => {
    const { Queue, Worker, createPostgresBackend } = await importPeer<BullModule>("bullmq");
    const isSingle = options.itemsPerJob === 1;
    const concurrency = isSingle ? SINGLES : LOADED;
    const connection = { connectionString: options.server, max: concurrency };
    const queue = new Queue(QUEUE, { connection }, createPostgresBackend);
    const counts = new SharedWrites<number>((parts) => book.countDown(parts.length));
    let worker: BullWorker | null = null;
    return {
      add: async (loads) => {
        await queue.addBulk(loads.map((data) => ({ name: JOB, data })));
      },
      work: async () => {
        worker = new Worker(
          QUEUE,
          async ({ data: { items } }) => {
            for (const item of items) await handleItem(item);
            if (!isSingle) await book.recordItems(items.map(({ n }) => n));
          },
          { connection, concurrency },
          createPostgresBackend,
        );
        worker.on("failed", (_job, error) => fail(error));
        worker.on("error", fail);
        if (isSingle) worker.on("completed", () => void counts.add(1).catch(fail));
      },
      countOutcomes: async () => {
        if (!isSingle) return book.countOutcomes();
        const { completed } = await queue.getJobCounts("completed");
        return completed ?? 0;
      },
      close: async () => {
        await worker?.close();
        await queue.close();
      },
    };
  },
});
